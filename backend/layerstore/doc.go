// Package layerstore keeps the layers of sandboxes whose workspace is an overlay, by the
// sandbox's id. It mounts nothing.
//
//	STATE/layers/ID/record.json   of what source, when it began, and where it lies; written
//	                              durably before anything else is made
//	STATE/layers/ID/lock          locked while a sandbox has it mounted, and by who reads it
//	STATE/layers/ID/known.json    what the source had when somebody looked at the changes
//	STATE/layers/ID/since.json    what was changed before the last start, and since when
//	STATE/layers/ID/shown.json    what principals were shown of the changes; replaced under
//	                              shown.lock, also while a sandbox has the layer
//	STATE/layers/ID/journal       of a commit
//	STATE/layers/ID/0/upper, work what commands changed; or in PLACE/paddock-ID/0
//	STATE/layers/places           directories outside of STATE that have layers
//
// What lies in an upper directory is hostile. This package only makes and removes it.
package layerstore
