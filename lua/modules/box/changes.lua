-- Counts the changes of data by this Lua state. Iterators compare it before they use tuples that were read ahead.
return {count = 0}
