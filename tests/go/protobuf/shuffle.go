package main

import (
	"encoding/binary"
	"math/rand"
)

// wireField is a field of a message as it is on the wire, with its tag.
type wireField struct {
	number, wire uint64
	content      []byte // of strings and messages
	all          []byte
}

// split returns the fields of a message; nil if the bytes are none.
func split(body []byte) []wireField {
	var parts []wireField
	for len(body) > 0 {
		tag, used := binary.Uvarint(body)
		if used <= 0 || tag>>3 == 0 {
			return nil
		}
		part := wireField{number: tag >> 3, wire: tag & 7}
		end := used
		switch part.wire {
		case 0:
			_, size := binary.Uvarint(body[used:])
			if size <= 0 {
				return nil
			}
			end += size
		case 1:
			end += 8
		case 2:
			length, size := binary.Uvarint(body[used:])
			if size <= 0 || length > uint64(len(body)-used-size) {
				return nil
			}
			end += size + int(length)
			part.content = body[used+size : end]
		case 5:
			end += 4
		default:
			return nil
		}
		if end > len(body) {
			return nil
		}
		part.all, body = body[:end], body[end:]
		parts = append(parts, part)
	}
	return parts
}

// shuffled returns the message with its fields in another order, some of them twice, down to a depth. What looks like a message
// may be a string, so Go may refuse the result.
func shuffled(random *rand.Rand, body []byte, depth int) []byte {
	fields := split(body)
	if fields == nil || depth == 0 {
		return body
	}
	for range random.Intn(3) {
		fields = append(fields, fields[random.Intn(len(fields))])
	}
	random.Shuffle(len(fields), func(a, b int) { fields[a], fields[b] = fields[b], fields[a] })
	var out []byte
	for _, part := range fields {
		if part.wire == 2 && random.Intn(3) == 0 {
			out = appendPart(out, part.number, shuffled(random, part.content, depth-1))
		} else {
			out = append(out, part.all...)
		}
	}
	return out
}

// appendPart appends a string or a message as a field.
func appendPart(out []byte, number uint64, content []byte) []byte {
	out = binary.AppendUvarint(binary.AppendUvarint(out, number<<3|2), uint64(len(content)))
	return append(out, content...)
}
