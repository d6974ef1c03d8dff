import { expect, test } from '@jest/globals';
import { packetsOf } from './capture.ts';

const ETHERNET = '525400000002525400000001';
/** From 192.0.2.1 port 51820 to 192.0.2.2 port 51821. */
const UDP4 = `${ETHERNET}0800${'4500002000000000401100 00'.replace(' ', '')}c0000201c0000202ca6cca6d000c0000deadbeef`;
/** From fd00::1 to fd00::2, TCP port 7000. */
const TCP6 = `${ETHERNET}86dd6000000000080640${'fd00' + '0'.repeat(27) + '1'}${'fd00' + '0'.repeat(27) + '2'}04001b5800000000`;
const ARP = `${ETHERNET}0806${'00'.repeat(28)}`;

function captureOf(...frames: readonly string[]): Buffer {
  const header = Buffer.from('d4c3b2a1020004000000000000000000ffff000001000000', 'hex');
  const records = frames.flatMap((hex) => {
    const frame = Buffer.from(hex, 'hex');
    const record = Buffer.alloc(16);
    record.writeUInt32LE(frame.length, 8);
    record.writeUInt32LE(frame.length, 12);
    return [record, frame];
  });
  return Buffer.concat([header, ...records]);
}

test('packetsOf() reads addresses and ports of both IP families, and passes over other frames', () => {
  expect(packetsOf(captureOf(UDP4, ARP, TCP6))).toEqual([
    { source: '192.0.2.1', destination: '192.0.2.2', isUdp: true, destinationPort: 51821 },
    {
      source: 'fd00:0:0:0:0:0:0:1',
      destination: 'fd00:0:0:0:0:0:0:2',
      isUdp: false,
      destinationPort: 7000,
    },
  ]);
});

test('packetsOf() refuses what is no capture, and one that ends within a frame', () => {
  expect(() => packetsOf(Buffer.from('plain'))).toThrow('not a little-endian pcap file');
  expect(() => packetsOf(captureOf(UDP4).subarray(0, -1))).toThrow('ends within a frame');
});
