import { describe, expect, test } from '@jest/globals';
import { Secret } from '../secret/index.ts';
import { isMacOfRecipients, macOfRecipients } from './index.ts';

const UUID = 'e69a2e66-2bc8-4695-b852-75f129bb9e54';
const key = (byte: number) => new Secret(new Uint8Array(32).fill(byte));
const [ann, ben, eve] = [1, 2, 3].map((byte) => new Uint8Array(32).fill(byte)) as [
  Uint8Array,
  Uint8Array,
  Uint8Array,
];
const MAC = macOfRecipients(key(7), { uuid: UUID, recipients: [ann, ben], threshold: 1 });

describe('isMacOfRecipients()', () => {
  test('accepts the same recipients in any order', () => {
    for (const recipients of [
      [ann, ben],
      [ben, ann],
    ])
      expect(isMacOfRecipients(MAC, key(7), { uuid: UUID, recipients, threshold: 1 })).toBe(true);
    expect(Buffer.from(MAC).toString('hex')).toMatchInlineSnapshot(
      `"47631f3af870ed983963899a857dc4606b2f398e4b891111625781171cec05c9"`,
    );
  });

  test.each<
    [string, mac: Uint8Array, byte: number, uuid: string, recipients: Uint8Array[], threshold?: number]
  >([
    ['one recipient more', MAC, 7, UUID, [ann, ben, eve]],
    ['one recipient less', MAC, 7, UUID, [ann]],
    ['another recipient', MAC, 7, UUID, [ann, eve]],
    ['another threshold', MAC, 7, UUID, [ann, ben], 2],
    ['another recovery key', MAC, 8, UUID, [ann, ben]],
    ['another disk', MAC, 7, UUID.replace('e', 'f'), [ann, ben]],
    ['a shorter MAC', MAC.subarray(1), 7, UUID, [ann, ben]],
    ['a changed MAC', MAC.with(31, (MAC[31] ?? 0) ^ 1), 7, UUID, [ann, ben]],
  ])('refuses %s', (_, mac, byte, ...[uuid, recipients, threshold = 1]) => {
    expect(isMacOfRecipients(mac, key(byte), { uuid, recipients, threshold })).toBe(false);
  });
});
