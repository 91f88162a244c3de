-- Functions of modules that are known gaps: they are there, and say that they do not work.
return function(module, name)
    return function()
        box.error(box.error.UNSUPPORTED, 'Lunabox', ('%s.%s()'):format(module, name))
    end
end
