package childkey_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/fanonce/fanonce/childkey"
)

func ExampleDerive() {
	parent := childkey.MustParse("018f3c1e-7b7a-4d2c-9a51-0c6d5e4f3a2b")
	charge, _ := childkey.Derive(parent, "payment", "charge")
	again, _ := childkey.Derive(parent, "payment", "charge")
	refund, _ := childkey.Derive(parent, "payment", "refund")
	fmt.Println(charge)
	fmt.Println(charge == again, charge == refund)
	// Output:
	// a8a1a15ccb704b1551db7aaf0445a2c1
	// true false
}

// Several calls of one operation need something that tells them apart.
func ExampleDerive_discriminators() {
	parent := childkey.MustParse("order-42")
	shirt, _ := childkey.Derive(parent, "inventory", "reserve", "sku-shirt")
	shoes, _ := childkey.Derive(parent, "inventory", "reserve", "sku-shoes")
	fmt.Println(shirt == shoes)
	// Output: false
}

func ExampleParse() {
	bare, _ := childkey.Parse(`order-42`)
	quoted, _ := childkey.Parse(`"order-42"`)
	_, err := childkey.Parse("order 42")
	fmt.Println(bare == quoted, bare.Quoted())
	fmt.Println(err)
	// Output:
	// true "order-42"
	// childkey: bad key: byte 0x20 at offset 5; a key has visible ASCII characters, without " , and \
}

func ExampleNew() {
	key, err := childkey.New()
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(len(key.String()))
	// Output: 36
}

// The intent has a business id: nothing needs to be stored to find its key again.
func ExampleFromParts() {
	key, _ := childkey.FromParts("checkout", "order-42", "rev-1")
	fmt.Println(key)
	// Output: 0264dd18c12735ffdece85020dc8eeff
}

func ExampleSum() {
	parent := childkey.MustParse("018f3c1e-7b7a-4d2c-9a51-0c6d5e4f3a2b")
	sum, _ := childkey.Sum(parent, "payment", "charge")
	key, _ := childkey.UUIDv8.Key(sum)
	fmt.Println(key)
	// Output: a8a1a15c-cb70-8b15-91db-7aaf0445a2c1
}

func ExampleKeyed() {
	secret := []byte("from the secret store, 16 bytes or more")
	keyed, err := childkey.NewKeyed("2026-01", secret)
	if err != nil {
		fmt.Println(err)
		return
	}
	key, _ := keyed.Derive(childkey.MustParse("order-42"), "partner", "notify")
	plain, _ := childkey.Derive(childkey.MustParse("order-42"), "partner", "notify")
	fmt.Println(keyed, key == plain)
	// Output: childkey.Keyed(2026-01) false
}

func ExampleLegacy() {
	parent := childkey.MustParse("018f3c1e-7b7a-4d2c-9a51-0c6d5e4f3a2b")
	key, _ := childkey.Legacy(parent, "inventory", "reserve")
	fmt.Println(key)
	// Output: 85434cc0225fbce87fcbd9b570266674
}

func ExampleFamily() {
	ctx := childkey.NewContext(context.Background(), childkey.MustParse("order-42"))
	family := childkey.FamilyFromContext(ctx)
	key, _ := childkey.Derive(family.Parent(), "payment", "charge")
	fmt.Println(family.Use(key, sha256.Sum256([]byte(`{"cents":100}`))))
	err := family.Use(key, sha256.Sum256([]byte(`{"cents":200}`)))
	fmt.Println(errors.Is(err, childkey.ErrDuplicateChild))
	// Output:
	// <nil>
	// true
}
