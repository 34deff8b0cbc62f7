/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
#ifndef LOADSHED_PURE_PACKET_H
#define LOADSHED_PURE_PACKET_H

/*
 * From a frame to what a verdict needs: addresses, protocol, ports, flags.
 *
 * The parser says what it found in a struct and how it went in an enum. It trusts no length: each header
 * is checked against the end of the frame, then the cursor moves past all of it. Both families come out
 * as one: an address is two host-order words, IPv4 in the low 32 bits of `low`.
 *
 * Only real extension headers are walked, each by its own length rule (RFC 8200 4, RFC 4302 2.2 for
 * AH); any other number is the payload's protocol. What is inside a tunnel is not looked at. The frame
 * decides what is there, not the IP length, which an attacker writes.
 */

#include "loadshed/bounds.h"
#include "pure/base.h"

enum ls_parse {
	LS_PARSE_IP,
	LS_PARSE_NON_IP,
	LS_PARSE_MALFORMED,
	LS_PARSE_EXTENSIONS, /* an IPv6 header whose chain ls_parse_extensions() must walk */
};

struct ls_address {
	__u64 high, low; /* host order; IPv4: high 0, low < 2^32 */
};

#define LS_NO_VLAN 0xffffU

/* What was found of it (struct ls_packet.known). */
#define LS_KNOWN_PROTOCOL 1U
#define LS_KNOWN_PORTS 2U	 /* TCP, UDP or SCTP with its whole fixed header */
#define LS_KNOWN_FLAGS 4U	 /* TCP with its whole fixed header */
#define LS_KNOWN_ICMP 8U	 /* ICMP or ICMPv6 with its whole fixed header */
#define LS_FRAGMENT 16U		 /* first or later fragment; an atomic fragment is whole */
#define LS_FRAGMENT_LATER 32U	 /* no transport header in it */
#define LS_EXTENSIONS 64U	 /* has IPv6 extension headers */
#define LS_EXTENSIONS_OTHER 128U /* among them other ones than hop-by-hop */

struct ls_packet {
	struct ls_address source, destination;
	/* These four are one word: they are all that is set before anything is found. */
	__u32 known;
	__u16 vlan;  /* VLAN id of the outer tag, or LS_NO_VLAN */
	__u8 family; /* 4 or 6; 0: none */
	__u8 tags;   /* VLAN tags */
	union {
		struct {
			__u16 port, source_port;
		};
		__u32 ports; /* both at once: LS_PORTS() */
	};
	__u8 hops; /* TTL or hop limit */
	__u8 protocol;
	__u8 flags; /* byte 13 of the TCP header */
	__u8 icmp_type;
};

/* Both ports as one word, which is how they lie in a frame once its bytes are swapped; so, too, the test for fragments. */
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "words are read as they lie in a frame");
#define LS_PORTS(source, destination) ((__u32)(source) << 16 | (destination))

#define LS_PROTOCOL_ICMP 1
#define LS_PROTOCOL_IGMP 2
#define LS_PROTOCOL_TCP 6
#define LS_PROTOCOL_UDP 17
#define LS_PROTOCOL_ICMPV6 58
#define LS_PROTOCOL_SCTP 132

#define LS_TCP_SYN 0x02
#define LS_TCP_ACK 0x10

#define LS_FRAME_HEADER 14
#define LS_EXTENSIONS_AT(packet) (LS_FRAME_HEADER + 4U * (packet)->tags + 40U)

LS_INLINE __u16 ls_be16(const __u8 *p)
{
	return (__u16)__builtin_bswap16(*(const __u16 *)p);
}

LS_INLINE __u32 ls_be32(const __u8 *p)
{
	return __builtin_bswap32(*(const __u32 *)p);
}

LS_INLINE __u64 ls_be64(const __u8 *p)
{
	return (__u64)ls_be32(p) << 32 | ls_be32(p + 4);
}

LS_INLINE int ls_is_tag(__u16 ethertype)
{
	return ethertype == 0x8100 || ethertype == 0x88a8 || ethertype == 0x9100;
}

/* IPv6 extension headers that are walked: RFC 8200, 4302, 6275 (135), 7401 (139), 5533 (140). */
LS_INLINE int ls_is_extension(__u8 protocol)
{
	return protocol == 0 || protocol == 43 || protocol == 44 || protocol == 51 ||
	       protocol == 60 || protocol == 135 || protocol == 139 || protocol == 140;
}

/* The fixed transport header at `cursor`, if it is whole. */
LS_INLINE void ls_parse_transport(const __u8 *cursor, const __u8 *end, struct ls_packet *packet)
{
	if (packet->protocol == LS_PROTOCOL_TCP) {
		if (cursor + 20 > end)
			return;
		packet->ports = ls_be32(cursor);
		packet->flags = cursor[13];
		packet->known |= LS_KNOWN_PORTS | LS_KNOWN_FLAGS;
	} else if (packet->protocol == LS_PROTOCOL_UDP || packet->protocol == LS_PROTOCOL_SCTP) {
		if (cursor + (packet->protocol == LS_PROTOCOL_UDP ? 8 : 12) > end)
			return;
		packet->ports = ls_be32(cursor);
		packet->known |= LS_KNOWN_PORTS;
	} else if (packet->protocol == LS_PROTOCOL_ICMP || packet->protocol == LS_PROTOCOL_ICMPV6) {
		if (cursor + 8 > end)
			return;
		packet->icmp_type = cursor[0];
		packet->known |= LS_KNOWN_ICMP;
	}
}

LS_INLINE enum ls_parse ls_parse_ipv4(const __u8 *ip, const __u8 *end, struct ls_packet *packet)
{
	/* Version 4 and a length of at least five words, in one comparison. */
	if (ip + 20 > end || ip[0] - 0x45U > 0x4fU - 0x45U)
		return LS_PARSE_MALFORMED;
	__u32 header = (ip[0] & 15U) * 4;
	if (ip + header > end)
		return LS_PARSE_MALFORMED;
	__u32 total = ls_be16(ip + 2);
	/* 0 is a merged super-packet of more than 64 KiB (BIG TCP, 6.3). */
	if (total != 0 && total < header)
		return LS_PARSE_MALFORMED;

	packet->family = 4;
	packet->source.high = 0;
	packet->destination.high = 0;
	packet->source.low = ls_be32(ip + 12);
	packet->destination.low = ls_be32(ip + 16);
	packet->hops = ip[8];
	packet->protocol = ip[9];
	packet->known |= LS_KNOWN_PROTOCOL;

	__u32 fragment = *(const __u16 *)(ip + 6); /* as it lies there: bytes swapped */
	if (LS_UNLIKELY(fragment & 0xff3fU)) {	   /* more-fragments bit or offset */
		packet->known |= LS_FRAGMENT;
		if (fragment & 0xff1fU) {
			packet->known |= LS_FRAGMENT_LATER;
			return LS_PARSE_IP;
		}
	}
	ls_parse_transport(ip + header, end, packet);
	return LS_PARSE_IP;
}

/* No offset of a frame whose chain is being walked reaches this mask. */
#define LS_OFFSET_MASK 0x7fffU
_Static_assert(14 + 4 * LS_VLAN_TAGS + 40 + LS_IPV6_EXTENSIONS * 2048 < LS_OFFSET_MASK,
	       "the longest chain fits the mask");

/*
 * Reads `bytes` (a constant, at most 20) of the frame at `offset` into `to`; 0, or not 0 when the frame ends before. An
 * argument of the walk below, because only the kernel can read beyond the first buffer of a frame, and a chain of
 * extension headers can be longer than that.
 */
typedef int (*ls_read)(void *context, __u32 offset, __u8 *to, __u32 bytes);

/* The transport header behind the extension headers, as far as it is there. */
LS_INLINE void ls_parse_transport_at(ls_read read, void *context, __u32 offset,
				     struct ls_packet *packet)
{
	__u8 header[20] = { 0 };
	__u32 bytes = 20;
	if (read(context, offset, header, 20)) {
		bytes = 12;
		if (read(context, offset, header, 12)) {
			bytes = 8;
			if (read(context, offset, header, 8))
				return;
		}
	}
	ls_parse_transport(header, header + bytes, packet);
}

/*
 * Walks the chain of extension headers that starts at `offset` of a frame of `length` bytes; its first header is
 * packet->protocol. What follows it is parsed, too. A header that is cut off before it says what follows leaves
 * the protocol unknown. One whose length runs past the end leaves the protocol as it says, whatever it is, and no
 * ports. A later fragment ends the walk.
 *
 * `opaque` is 0. The verifier does not know that: it is added where two branches meet, so that they are one
 * state to it and not the start of 6^8 paths. That the loop ends with a condition matters, too: verifiers up to 6.1
 * accept a loop that a jump closes, and none that merely falls through to its start (tests/kern/backedge.py).
 */
LS_INLINE enum ls_parse ls_parse_extensions(ls_read read, void *context, __u32 length, __u32 offset,
					    struct ls_packet *packet, __u32 opaque)
{
	__u8 protocol = packet->protocol;
	__u32 seen = 0, fragments = 0;
	enum ls_parse parse = LS_PARSE_MALFORMED;
	packet->known |= LS_EXTENSIONS;
	for (int i = 0; i <= LS_IPV6_EXTENSIONS; i++) {
		if (!ls_is_extension(protocol)) {
			packet->protocol = protocol;
			packet->known |= LS_KNOWN_PROTOCOL;
			ls_parse_transport_at(read, context, offset, packet);
			parse = LS_PARSE_IP;
			break;
		}
		if (i == LS_IPV6_EXTENSIONS)
			break;
		seen |= protocol;
		/* What it says must be there: all of a fragment header, of others what follows and how
		 * long. */
		__u8 header[8] = { 0 };
		parse = LS_PARSE_IP;
		if (protocol == 44 ? read(context, offset, header, 8)
				   : read(context, offset, header, 2))
			break;
		__u32 bytes = (header[1] + 1U) * 8;
		if (protocol == 51)
			bytes = (header[1] + 2U) * 4;
		if (protocol == 44) {
			__u32 fragment = ls_be16(header + 2) & 0xfff9U; /* offset and M */
			fragments |= fragment;
			if (fragment & 0xfff8U) {
				packet->protocol = header[0];
				packet->known |= LS_FRAGMENT_LATER | LS_KNOWN_PROTOCOL;
				break;
			}
			bytes = 8;
		}
		protocol = header[0];
		offset += bytes + opaque;
		seen += opaque;
		fragments += opaque;
		if (offset > length) {
			packet->protocol = protocol;
			packet->known |= LS_KNOWN_PROTOCOL;
			break;
		}
		parse = LS_PARSE_MALFORMED; /* unless the chain ends within the bound */
	}
	if (seen)
		packet->known |= LS_EXTENSIONS_OTHER;
	if (fragments)
		packet->known |= LS_FRAGMENT;
	return parse;
}

LS_INLINE enum ls_parse ls_parse_ipv6(const __u8 *ip, const __u8 *end, struct ls_packet *packet)
{
	if (ip + 40 > end || ip[0] >> 4 != 6)
		return LS_PARSE_MALFORMED;
	packet->family = 6;
	packet->source.high = ls_be64(ip + 8);
	packet->source.low = ls_be64(ip + 16);
	packet->destination.high = ls_be64(ip + 24);
	packet->destination.low = ls_be64(ip + 32);
	packet->hops = ip[7];
	packet->protocol = ip[6];

	if (LS_UNLIKELY(ls_is_extension(packet->protocol)))
		return LS_PARSE_EXTENSIONS;
	packet->known |= LS_KNOWN_PROTOCOL;
	ls_parse_transport(ip + 40, end, packet);
	return LS_PARSE_IP;
}

/*
 * Parses the frame [frame, end) up to the extension headers, which the caller hands to
 * ls_parse_extensions() at LS_EXTENSIONS_AT(packet). On LS_PARSE_IP *packet holds what `known` says, and
 * addresses, family, protocol, hops, vlan. On the others family may be set, but the packet has no source
 * that anything should be charged to. A frame cut off before its EtherType is malformed (no network card
 * delivers one, a capture can hold one).
 */
LS_INLINE enum ls_parse ls_parse(const __u8 *frame, const __u8 *end, struct ls_packet *packet)
{
	/* Only what may be read without having been found is set: a dozen stores less. */
	packet->known = 0;
	packet->vlan = LS_NO_VLAN;
	packet->family = 0;
	packet->tags = 0;
	if (frame + LS_FRAME_HEADER > end)
		return LS_PARSE_MALFORMED;

	__u16 ethertype = ls_be16(frame + 12);
	const __u8 *cursor = frame + LS_FRAME_HEADER;
	if (LS_UNLIKELY(ls_is_tag(ethertype))) {
		if (cursor + 4 > end)
			return LS_PARSE_MALFORMED;
		packet->vlan = ls_be16(cursor) & 0xfffU;
		ethertype = ls_be16(cursor + 2);
		cursor += 4;
		if (ls_is_tag(ethertype)) {
			if (cursor + 4 > end)
				return LS_PARSE_MALFORMED;
			ethertype = ls_be16(cursor + 2);
			cursor += 4;
			if (ls_is_tag(ethertype))
				return LS_PARSE_MALFORMED;
			packet->tags = 1;
		}
		packet->tags++;
	}
	if (LS_LIKELY(ethertype == 0x0800))
		return ls_parse_ipv4(cursor, end, packet);
	if (ethertype == 0x86dd)
		return ls_parse_ipv6(cursor, end, packet);
	return LS_PARSE_NON_IP;
}

/* TCP with SYN and without ACK: what a `connections` limit counts. */
LS_INLINE int ls_is_connection(const struct ls_packet *packet)
{
	return packet->known & LS_KNOWN_FLAGS &&
	       (packet->flags & (LS_TCP_SYN | LS_TCP_ACK)) == LS_TCP_SYN;
}

/*
 * What keeps links alive (step 3): neighbour discovery (RFC 4861), MLD (RFC 2710, 3810), IGMP, and the
 * replies of DHCP and DHCPv6 servers. The hop limits are those that the RFCs demand: a router cannot
 * have forwarded it.
 */
LS_INLINE int ls_is_control(const struct ls_packet *packet)
{
	if (packet->protocol == LS_PROTOCOL_UDP)
		return packet->ports ==
			       (packet->family == 4 ? LS_PORTS(67, 68) : LS_PORTS(547, 546)) &&
		       (packet->known & (LS_KNOWN_PORTS | LS_FRAGMENT | LS_EXTENSIONS)) ==
			       LS_KNOWN_PORTS;
	if (packet->family == 4)
		return packet->protocol == LS_PROTOCOL_IGMP && packet->hops == 1 &&
		       !(packet->known & LS_FRAGMENT_LATER);
	if (packet->protocol != LS_PROTOCOL_ICMPV6 || !(packet->known & LS_KNOWN_ICMP))
		return 0;
	if (packet->icmp_type >= 133 && packet->icmp_type <= 136)
		return packet->hops == 255 && !(packet->known & LS_EXTENSIONS);
	return ((packet->icmp_type >= 130 && packet->icmp_type <= 132) ||
		packet->icmp_type == 143) &&
	       packet->hops == 1 && !(packet->known & LS_EXTENSIONS_OTHER);
}

/* ICMP errors (step 7): RFC 792 types 3, 11, 12; RFC 4443 types 1 to 4. */
LS_INLINE int ls_is_icmp_error(const struct ls_packet *packet)
{
	if (!(packet->known & LS_KNOWN_ICMP))
		return 0;
	if (packet->family == 4)
		return packet->protocol == LS_PROTOCOL_ICMP &&
		       (packet->icmp_type == 3 || packet->icmp_type == 11 ||
			packet->icmp_type == 12);
	return packet->protocol == LS_PROTOCOL_ICMPV6 && packet->icmp_type >= 1 &&
	       packet->icmp_type <= 4;
}

/* The first `bits` bits of an address of `family`; bits 0 to 32 or 0 to 128. */
LS_INLINE struct ls_address ls_masked(struct ls_address address, __u8 family, __u32 bits)
{
	if (family == 4) {
		address.low &= 0xffffffff00000000ULL >> bits;
		address.low &= 0xffffffffULL;
		return address;
	}
	if (bits <= 64) {
		address.low = 0;
		if (bits < 64)
			address.high &= ~(~0ULL >> bits);
	} else if (bits < 128) {
		address.low &= ~(~0ULL >> (bits - 64));
	}
	return address;
}

#endif
