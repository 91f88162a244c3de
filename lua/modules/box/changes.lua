-- How often this Lua state has changed data: iterators look at it before they trust what they read ahead.
return {count = 0}
