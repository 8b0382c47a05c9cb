package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/fanonce/fanonce/childkey"
)

// verifyOut is the JSON of key verify.
type verifyOut struct {
	Valid bool `json:"valid"`
	// Derived says whether the key is the child that the other arguments name; absent if there are none.
	Derived  *bool  `json:"derived,omitempty"`
	Encoding string `json:"encoding,omitempty"` // of the child
}

func newKeyVerify(a *app) *cobra.Command {
	var d derivation
	cmd := &cobra.Command{
		Use:   "verify KEY [PARENT SERVICE OPERATION [DISCRIMINATOR]...]",
		Short: "Check that a key is valid, and whose child it is",
		Long: `Check that KEY is a valid key. With PARENT, SERVICE and OPERATION also check that KEY is the key of that call, in
any encoding, or by the legacy formula. The exit code is 0 if it is, else 1.`,
		Example: "  fanonce key verify 0b7a5c… order-42 payment charge",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				return nil
			}
			return takes(4, -1)(cmd, args)
		},
		RunE: func(_ *cobra.Command, args []string) error { return a.verify(&d, args) },
	}
	cmd.Flags().StringVar(&d.scope, "scope", "", "PARENT is an inbound key of this scope: its hop key counts")
	cmd.Flags().StringVar(&d.namespace, "namespace", "", "the guard's namespace, with --scope")
	return cmd
}

func (a *app) verify(d *derivation, args []string) error {
	text, err := a.word(args[0])
	if err != nil {
		return err
	}
	key, invalid := childkey.Parse(text)
	out := verifyOut{Valid: invalid == nil}
	said := "valid"
	switch {
	case invalid != nil:
		said = ""
	case len(args) > 1:
		parent, err := a.key(args[1])
		if err != nil {
			return fmt.Errorf("PARENT: %w", err)
		}
		out.Encoding, err = d.match(key, parent, args[2], args[3], args[4:])
		if err != nil {
			return err
		}
		derived := out.Encoding != ""
		out.Derived, said = &derived, "derived, as "+out.Encoding
	}
	return a.printVerdict(out, said, invalid)
}

func (a *app) printVerdict(out verifyOut, said string, invalid error) error {
	isNo := invalid != nil || out.Derived != nil && !*out.Derived
	switch {
	case a.json:
		if err := writeJSON(a.stdout, out); err != nil {
			return err
		}
	case invalid != nil:
		return no("not valid: %v", invalid)
	case isNo:
		return no("valid, but not the key of that call")
	default:
		_, err := fmt.Fprintln(a.stdout, said)
		return err
	}
	if isNo {
		return no("")
	}
	return nil
}

const legacyName = "legacy"

// match returns the encoding in which key is the child, or "".
func (d *derivation) match(key, parent childkey.Key, service, operation string, more []string) (string, error) {
	for _, name := range encodingNames() {
		d.encoding = name
		child, err := d.child(parent, service, operation, more)
		if err != nil {
			return "", err
		}
		if child == key {
			return name, nil
		}
	}
	if len(more) > 0 {
		return "", nil
	}
	from, err := d.parent(parent)
	if err != nil {
		return "", err
	}
	if child, err := childkey.Legacy(from, service, operation); err == nil && child == key {
		return legacyName, nil
	}
	return "", nil
}
