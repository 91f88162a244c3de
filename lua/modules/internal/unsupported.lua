-- Functions of modules that are not implemented: they exist, and a call raises an error.
return function(module, name)
    return function()
        box.error(box.error.UNSUPPORTED, 'Lunabox', ('%s.%s()'):format(module, name))
    end
end
