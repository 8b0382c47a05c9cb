-- Record has all columns of a record that a statement returns.
/*listed*/, envelope
