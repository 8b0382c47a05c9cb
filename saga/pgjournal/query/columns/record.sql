-- Record has all columns of a saga that a statement returns.
/*listed*/, input, result
