-- Listed has the columns of a saga without its input and its result, which may be large.
/*outline*/, cause, stuck_on, input_hash, scope, key, entries
