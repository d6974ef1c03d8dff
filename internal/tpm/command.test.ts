import { describe, expect, test } from '@jest/globals';
import { respond } from '../testing/tpm/fake-tpm.ts';
import { fuzz } from '../testing/fuzz.ts';
import { decodeResponse, encodeCommand, password, readResponseCode, type TpmCommand } from './command.ts';

const PLAIN: TpmCommand = { name: 'getRandom', parameters: Uint8Array.of(0, 8) };
const AUTHORIZED: TpmCommand = { name: 'quote', handles: [0x80000000], authorizations: [password()] };

const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex');

/** A response with bytes at an offset replaced. */
function patched(message: Uint8Array, at: number, bytes: readonly number[]): Uint8Array {
  const copy = message.slice();
  copy.set(bytes, at);
  return copy;
}

describe('encodeCommand()', () => {
  test('encodes header, handles, authorization and parameters as in TPM 2.0 Part 1, 18', () => {
    expect(hex(encodeCommand(PLAIN))).toBe('80010000000c0000017b0008');
    expect(hex(encodeCommand({ ...AUTHORIZED, parameters: Uint8Array.of(1) }))).toBe(
      '80020000001c00000158' + '80000000' + '00000009' + '40000009' + '0000' + '01' + '0000' + '01',
    );
  });

  test('refuses a command above the size limit', () => {
    expect(() => encodeCommand({ ...PLAIN, parameters: new Uint8Array(4096) })).toThrow(RangeError);
  });
});

describe('decodeResponse()', () => {
  const parameters = Uint8Array.of(1, 2, 3);

  test('returns the handle and the parameters', () => {
    const plain = decodeResponse(respond({ parameters }), PLAIN);
    expect(plain.parameters.bytes(3, 'all')).toEqual(parameters);
    const made = decodeResponse(respond({ parameters, handle: 7, sessions: true }), {
      ...AUTHORIZED,
      returnsHandle: true,
    });
    expect([made.handle, made.parameters.remaining]).toEqual([7, 3]);
  });

  const good = respond({ parameters, sessions: true });
  const hostile = [
    { name: 'a response shorter than a header', message: good.slice(0, 9), code: 'tpm-malformed' },
    { name: 'a size that differs from the length', message: patched(good, 5, [0xff]), code: 'tpm-malformed' },
    {
      name: 'a response tag without sessions',
      message: patched(good, 0, [0x80, 0x01]),
      code: 'tpm-malformed',
    },
    {
      name: 'a parameter size that exceeds the response',
      message: patched(good, 10, [0xff, 0xff, 0xff, 0xff]),
      code: 'tpm-malformed',
    },
    {
      name: 'a parameter size below the actual size',
      message: patched(good, 13, [2]),
      code: 'tpm-malformed',
    },
    {
      name: 'an unexpected session attribute',
      message: patched(good, good.length - 3, [0]),
      code: 'tpm-malformed',
    },
    {
      name: 'a response with an unexpected HMAC',
      message: patched(good, good.length - 1, [1]),
      code: 'tpm-malformed',
    },
    { name: 'a TPM error response', message: respond({ rc: 0x9a2 }), code: 'tpm-auth-failed' },
    {
      name: 'a TPM error response with a session tag',
      message: patched(respond({ rc: 0x9a2 }), 0, [0x80, 2]),
      code: 'tpm-malformed',
    },
  ];
  test.each(hostile)('refuses $name', ({ message, code }) => {
    expect(() => decodeResponse(message, AUTHORIZED)).toThrow(expect.objectContaining({ code }));
  });

  const codes = [
    { rc: 0x101, code: 'tpm-refused' },
    { rc: 0x18b, code: 'tpm-handle-missing' },
    { rc: 0x1df, code: 'tpm-credential-rejected' },
    { rc: 0x902, code: 'tpm-refused' },
    { rc: 0x921, code: 'tpm-lockout' },
    { rc: 0x922, code: 'tpm-busy' },
    { rc: 0x98e, code: 'tpm-auth-failed' },
    { rc: 0x99d, code: 'tpm-policy-failed' },
    { rc: 0xa9d, code: 'tpm-policy-failed' },
  ];
  test.each(codes)('translates response code $rc to $code', ({ rc, code }) => {
    expect(() => decodeResponse(respond({ rc }), PLAIN)).toThrow(
      expect.objectContaining({
        code,
        details: { command: 'getRandom', responseCode: `0x${rc.toString(16)}` },
      }),
    );
  });

  test('throws only its coded errors for arbitrary bytes', () => {
    const seeds = [good, respond({ parameters }), respond({ rc: 0x922 }), respond({ handle: 1, parameters })];
    const parse = (input: Uint8Array): unknown => [
      readResponseCode(input, 'quote'),
      decodeResponse(input, AUTHORIZED),
    ];
    expect(fuzz({ seeds, parse, codes: ['tpm-'] }).refused).toBeGreaterThan(100);
  });
});
