import { describe, expect, test } from '@jest/globals';
import { generateEd25519Key } from '../crypto/index.ts';
import { Secret } from '../secret/index.ts';
import { approvalKeyOfOwner, parseApprovalKey } from './approval-key.ts';
import { approvalReference, parseApproval, signApproval, type ApprovalContent } from './approval.ts';

const PEM = new Secret(
  // RFC 8410, 10.3
  '-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC\n-----END PRIVATE KEY-----\n',
);
const key = approvalKeyOfOwner(PEM);
const point = parseApprovalKey(key.publicKey) ?? new Uint8Array();
const name = (byte: number): Uint8Array => Uint8Array.of(0, 0x0b, ...new Uint8Array(32).fill(byte));
const registers = (byte: number) =>
  new Map([
    [7, new Uint8Array(32).fill(7)],
    [11, new Uint8Array(32).fill(byte)],
  ]);
const CONTENT: ApprovalContent = {
  uuid: 'e69a2e66-2bc8-4695-b852-75f129bb9e54',
  generation: 12n,
  seals: [name(1), name(2)],
  software: [registers(1), registers(2)],
};
const invalid = expect.objectContaining({ code: 'statedisk-approval-invalid' });

describe('approvalKeyOfOwner()', () => {
  test('derives the same key from the same owner key, and another key from another one', () => {
    expect(key.publicKey).toMatchInlineSnapshot(`"A37DIVtZ4KqwTPs6Wk5erVRRBY7WeJrjZ+Of8a3NENaU"`);
    expect(approvalKeyOfOwner(PEM).publicKey).toBe(key.publicKey);
    expect(approvalKeyOfOwner(generateEd25519Key()).publicKey).not.toBe(key.publicKey);
  });

  test.each([
    ['another length', Buffer.alloc(32, 2).toString('base64')],
    ['no point of the curve', Buffer.concat([Buffer.of(2), Buffer.alloc(32, 0xff)]).toString('base64')],
    ['an uncompressed point', Buffer.concat([Buffer.of(4), Buffer.alloc(32)]).toString('base64')],
    ['text around it', ` ${key.publicKey}`],
  ])('parseApprovalKey() refuses a key with %s', (_, text) => {
    expect(parseApprovalKey(text)).toBeUndefined();
  });
});

describe('parseApproval()', () => {
  const signed = signApproval(CONTENT, key.privateKey);

  test('returns what was signed', () => {
    const { forTpm, ...content } = parseApproval(signed, point);
    expect(content).toEqual(CONTENT);
    expect(forTpm).toMatchObject({ generation: 12n, seals: CONTENT.seals });
    expect(forTpm.software).toHaveLength(2);
  });

  test('refuses an approval with any byte altered', () => {
    for (let at = 0; at < signed.length; at += 7) {
      const altered = Buffer.from(signed);
      altered.writeUInt8(altered.readUInt8(at) ^ 1, at);
      expect(() => parseApproval(altered, point)).toThrow(invalid);
    }
  });

  test.each<[string, () => Uint8Array]>([
    [
      'signed by another owner',
      () => signApproval(CONTENT, approvalKeyOfOwner(generateEd25519Key()).privateKey),
    ],
    ['cut', () => signed.subarray(0, -1)],
    ['with a space', () => Buffer.concat([signed, Buffer.from(' ')])],
    ['longer than 16 KiB', () => Buffer.concat([signed, Buffer.alloc(16_384, ' ')])],
    ['that names no software', () => signApproval({ ...CONTENT, software: [] as never }, key.privateKey)],
    [
      'that names nine sets of registers',
      () => signApproval({ ...CONTENT, software: Array(9).fill(registers(1)) as never }, key.privateKey),
    ],
    [
      'that names other registers for other software',
      () =>
        signApproval(
          { ...CONTENT, software: [registers(1), new Map([[7, new Uint8Array(32)]])] },
          key.privateKey,
        ),
    ],
    ['of generation 0', () => signApproval({ ...CONTENT, generation: 0n }, key.privateKey)],
  ])('refuses an approval %s', (_, bytes) => {
    expect(() => parseApproval(bytes(), point)).toThrow(invalid);
  });

  test('binds approvals to one disk', () => {
    const references = [CONTENT.uuid, CONTENT.uuid.replace('e', 'f')].map(approvalReference);
    expect(references[0]).not.toEqual(references[1]);
  });
});
