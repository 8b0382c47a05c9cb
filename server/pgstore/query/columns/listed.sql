-- Listed has the columns of a record without its answer, which may be large.
/*outline*/, token, fingerprint_version, fingerprint, memo
