const MAGIC = 0xa1b2c3d4;
const HEADER_BYTES = 24;
const RECORD_BYTES = 16;
const ETHERNET_BYTES = 14;
const ETHER_TYPE = { ipv4: 0x0800, ipv6: 0x86dd } as const;
const UDP = 17;

/** An IP packet of a capture. `ports` of UDP and TCP only. */
export interface Packet {
  readonly source: string;
  readonly destination: string;
  readonly isUdp: boolean;
  readonly destinationPort: number | undefined;
}

/**
 * The IP packets of a capture of Ethernet, as QEMU's filter-dump writes it: little-endian, one record a frame
 * (pcap-savefile(5)). @throws Error for another format
 */
export function packetsOf(capture: Buffer): readonly Packet[] {
  if (capture.length < HEADER_BYTES || capture.readUInt32LE(0) !== MAGIC)
    throw new Error('the capture is not a little-endian pcap file');
  const packets: Packet[] = [];
  for (let at = HEADER_BYTES; at + RECORD_BYTES <= capture.length;) {
    const length = capture.readUInt32LE(at + 8);
    const frame = capture.subarray(at + RECORD_BYTES, at + RECORD_BYTES + length);
    if (frame.length < length) throw new Error('the capture ends within a frame');
    const packet = packetOf(frame);
    if (packet !== undefined) packets.push(packet);
    at += RECORD_BYTES + length;
  }
  return packets;
}

function packetOf(frame: Buffer): Packet | undefined {
  const type = frame.readUInt16BE(12);
  const ip = frame.subarray(ETHERNET_BYTES);
  if (type === ETHER_TYPE.ipv4) {
    const headerBytes = ((ip[0] ?? 0) & 15) * 4;
    const transport = ip.subarray(headerBytes);
    return packet(ip[9], transport, { source: dotted(ip, 12), destination: dotted(ip, 16) });
  }
  if (type === ETHER_TYPE.ipv6)
    return packet(ip[6], ip.subarray(40), { source: colons(ip, 8), destination: colons(ip, 24) });
  return undefined;
}

function packet(
  protocol: number | undefined,
  transport: Buffer,
  addresses: Pick<Packet, 'source' | 'destination'>,
): Packet {
  const hasPorts = (protocol === UDP || protocol === 6) && transport.length >= 4;
  const destinationPort = hasPorts ? transport.readUInt16BE(2) : undefined;
  return { ...addresses, isUdp: protocol === UDP, destinationPort };
}

function dotted(ip: Buffer, at: number): string {
  return ip.subarray(at, at + 4).join('.');
}

/** Eight groups without the short form of zeros, so that a prefix of a network is a prefix of the text. */
function colons(ip: Buffer, at: number): string {
  return Array.from({ length: 8 }, (_, index) => ip.readUInt16BE(at + 2 * index).toString(16)).join(':');
}
