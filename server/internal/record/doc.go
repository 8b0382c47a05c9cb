// Package record makes the bytes inside a store's record: the envelope of an answer, the fingerprint of a request with
// the canonical form of its body, and the seal around secret bytes.
//
// It knows the codec only as [Codec], and no store.
package record
