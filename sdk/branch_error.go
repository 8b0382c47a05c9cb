package sdk

import "fmt"

// A DependencyError is why a branch failed that needs the result of another:
// that one failed. Its branch is NotSent unless it had called something before.
// It does not wrap the other one's error, whose outcome is not this branch's.
type DependencyError struct {
	Branch     string // that failed for it; "" outside of a branch
	Dependency string // the branch that it needs
	Err        error  // what Dependency failed with
}

// Error names both branches.
func (e *DependencyError) Error() string {
	return fmt.Sprintf("sdk: branch %s needs %s, which failed: %v", e.Branch, e.Dependency, e.Err)
}

// Is matches [ErrDependency].
func (e *DependencyError) Is(target error) bool { return target == ErrDependency }

// A PanicError is a panic of a branch's function, or its end by runtime.Goexit.
type PanicError struct {
	Value any    // what it panicked with
	Stack []byte // of the goroutine that panicked; nil after Goexit
}

// Error shows the value; the stack is in the field.
func (e *PanicError) Error() string { return fmt.Sprintf("sdk: branch panicked: %v", e.Value) }

// Is matches [ErrPanic].
func (e *PanicError) Is(target error) bool { return target == ErrPanic }
