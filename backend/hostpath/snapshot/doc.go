// Package snapshot compares what programs of the host execute or obey
// (policy.Inventory) before and after commands could write to directories of the
// host. [Take] looks before, [Snapshot.Compare] looks again. [Snapshot.Encode] keeps
// what was there for who comes after a killed owner.
//
// Nothing is followed that commands could have made into a link, and each look is
// bounded in time, names and bytes; what a bound cuts off is reported.
package snapshot
