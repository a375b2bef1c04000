package main

import (
	"encoding/binary"
	"fmt"
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// none stands for no message.
const none = 0xffff

// texts collects strings, each once. An entry is its length in one byte, then the string; a string is known by its offset.
type texts struct {
	bytes   []byte
	offsets map[string]int
}

func (t *texts) offset(text string) (uint16, error) {
	at, ok := t.offsets[text]
	if !ok {
		at = len(t.bytes)
		t.offsets[text] = at
		t.bytes = append(t.bytes, byte(len(text)))
		t.bytes = append(t.bytes, text...)
	}
	if at > 0xffff || len(text) > 0xff {
		return 0, fmt.Errorf("the table is full at %q", text)
	}
	return uint16(at), nil
}

// messages returns every message type that the kinds lead to with its fields, and the types sorted by name.
func messages(all []kind) (map[reflect.Type][]field, []reflect.Type, error) {
	found := map[reflect.Type][]field{}
	var visit func(message reflect.Type) error
	visit = func(message reflect.Type) error {
		if _, ok := found[message]; ok {
			return nil
		}
		own, err := fields(message)
		if err != nil {
			return err
		}
		found[message] = own
		for _, one := range own {
			if one.message != nil {
				if err := visit(one.message); err != nil {
					return err
				}
			}
		}
		return nil
	}
	for _, one := range all {
		if err := visit(one.object); err != nil {
			return nil, nil, err
		}
	}
	// The special forms of a schema lead to it.
	if err := visit(schemaType); err != nil {
		return nil, nil, err
	}
	var sorted []reflect.Type
	for message := range found {
		sorted = append(sorted, message)
	}
	slices.SortFunc(sorted, func(a, b reflect.Type) int { return strings.Compare(name(a), name(b)) })
	for _, message := range sorted {
		if err := distinct(found, message, map[string]bool{}); err != nil {
			return nil, nil, err
		}
	}
	return found, sorted, nil
}

// distinct returns an error if two members of an object have one name, which Go's encoder would decide by depth.
func distinct(all map[reflect.Type][]field, message reflect.Type, seen map[string]bool) error {
	for _, one := range all[message] {
		switch {
		case one.form == formHidden:
		case one.form == formInline:
			if err := distinct(all, one.message, seen); err != nil {
				return err
			}
		case seen[one.name]:
			return fmt.Errorf("%s: two members %q", name(message), one.name)
		default:
			seen[one.name] = true
		}
	}
	return nil
}

// encode returns the table. All numbers are little-endian:
//
//	"ctrlhost proto 2"   16 bytes, the version of the format
//	u32 × 8              offsets of: kinds, messages, fields, texts, end; the number of ObjectMeta; of JSONSchemaProps; the text of the release
//	kinds                u16 apiVersion, u16 kind, u16 message, u16 resource; sorted by apiVersion and kind
//	messages             u16 name, u16 first field; one more entry closes the last message
//	fields               u16 number, u16 key, u16 message or 0xffff, u8 form, u8 flags; sorted by number within their message
//	texts                u8 length, then the bytes
//
// A resource is the plural of a kind that every server has, behind a slash if it has no namespaces; else empty. A key is the member's name as JSON has it, with its quotes and a colon.
func encode(release string, all []kind, source *sources) ([]byte, error) {
	found, sorted, err := messages(all)
	if err != nil {
		return nil, err
	}
	number := map[reflect.Type]uint16{}
	for at, message := range sorted {
		number[message] = uint16(at)
	}
	pool := &texts{offsets: map[string]int{}}
	var failed error
	text := func(text string) uint16 {
		at, err := pool.offset(text)
		if err != nil {
			failed = err
		}
		return at
	}
	var kindPart, messagePart, fieldPart []byte
	append16 := binary.LittleEndian.AppendUint16
	count := 0
	for _, message := range sorted {
		messagePart = append16(append16(messagePart, text(shortName(message))), uint16(count))
		for _, one := range found[message] {
			to := uint16(none)
			if one.message != nil {
				to = number[one.message]
			}
			fieldPart = append16(append16(append16(fieldPart, uint16(one.number)), text(`"`+one.name+`":`)), to)
			fieldPart = append(fieldPart, byte(one.form), one.flags)
			count++
		}
	}
	messagePart = append16(append16(messagePart, text("")), uint16(count))
	for _, one := range all {
		kindPart = append16(append16(append16(kindPart, text(one.apiVersion)), text(one.kind)), number[one.object])
		kindPart = append16(kindPart, text(source.resource(one)))
	}
	releaseText := text(release)
	if failed != nil {
		return nil, failed
	}
	out := []byte("ctrlhost proto 2")
	kindsAt := len(out) + 8*4
	messagesAt := kindsAt + len(kindPart)
	fieldsAt := messagesAt + len(messagePart)
	textsAt := fieldsAt + len(fieldPart)
	for _, at := range []int{
		kindsAt, messagesAt, fieldsAt, textsAt, textsAt + len(pool.bytes),
		int(number[reflect.TypeFor[metav1.ObjectMeta]()]), int(number[schemaType]), int(releaseText),
	} {
		out = binary.LittleEndian.AppendUint32(out, uint32(at))
	}
	return slices.Concat(out, kindPart, messagePart, fieldPart, pool.bytes), nil
}

// shortName returns the last two parts of the package and the name: `core/v1.Pod`.
func shortName(message reflect.Type) string {
	parts := strings.Split(name(message), "/")
	return strings.Join(parts[max(0, len(parts)-2):], "/")
}
