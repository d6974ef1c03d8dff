import { readFileSync } from 'node:fs';
import { beforeAll, describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import {
  CURVES,
  encodeSignature,
  merkleTree,
  leafHash,
  parseSignature,
  type ClockInfo,
} from '../../tpm/index.ts';
import { AK_ATTRIBUTES, createSoftKey, type SoftKey } from '../../testing/tpm/fake-tpm.ts';
import { buildLog } from '../../testing/tpm/event-log.ts';
import { fuzz } from '../../testing/fuzz.ts';
import { forgeEvidence, nameHexOf, type ForgedEvidence } from '../../testing/tpm/tpm-evidence.ts';
import { MAX_EVIDENCE_BYTES, type ValidationContext, type Verdict } from '../verdict.ts';
import { decodeTpmEvidence, encodeTpmEvidence } from './evidence.ts';
import type { KnownAttestationKey, TpmRules } from './rules.ts';
import { clockOfVerdict, TpmValidator } from './validator.ts';
import { verifyTpmEvidence } from './verify-evidence.ts';

interface Recorded {
  readonly binding: string;
  readonly attestationKeyName: string;
  readonly quoteId: string;
  readonly evidence: string;
}
const recorded = JSON.parse(
  readFileSync(new URL('fixtures/swtpm-quote.json', import.meta.url), 'utf8'),
) as Recorded;
const evidence = new Uint8Array(Buffer.from(recorded.evidence, 'base64'));
const binding = new Uint8Array(Buffer.from(recorded.binding, 'hex'));

const RULES: TpmRules = {
  attestationKeys: 'enrolled',
  requiredPcrs: [0, 4, 15],
  loggedPcrs: [],
  requireSafeClock: false,
  eventLog: 'optional',
};
const coded = (code: string): unknown => expect.objectContaining({ code });
const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex');

function contextOf(
  known: readonly (readonly [string, KnownAttestationKey])[],
  options: {
    readonly rules?: Partial<TpmRules>;
    readonly policy?: Partial<ValidationContext['policy']>;
  } = {},
): ValidationContext {
  return {
    nowMs: 0,
    policy: {
      version: 'test-1',
      registers: new Map(),
      machines: 'any-proved',
      tpm: { ...RULES, ...options.rules },
      ...options.policy,
    },
    collateral: { tpm: { attestationKeys: new Map(known) } },
  };
}

const judge = (bytes: Uint8Array, to: Uint8Array, context: ValidationContext): Promise<Verdict> =>
  new TpmValidator().validate(bytes, to, context);

describe('TPM evidence recorded from swtpm', () => {
  const EK = 'ab'.repeat(32);
  const context = contextOf([[recorded.attestationKeyName, { endorsementKeyId: EK }]], {
    rules: { eventLog: 'required', loggedPcrs: [0, 4] },
  });

  test('is accepted, and the verdict lists every check', async () => {
    const verdict = await judge(evidence, binding, context);
    expect(verdict).toMatchObject({
      variant: 'tpm',
      accepted: true,
      machineIdentity: { kind: 'tpm-ek', id: EK, proof: 'endorsed' },
      policyVersion: 'test-1',
      claims: { batchSize: 5, safe: true, scheme: 'ecdsa-sha256', events: 24, quoteId: recorded.quoteId },
      warnings: [],
    });
    expect(hex(verdict.measurements.get('pcr4') ?? new Uint8Array())).toMatch(/^925d453d/);
    expect(verdict.checks.map((check) => check.name)).toEqual([
      'key-attributes',
      'key-scheme',
      'signature-scheme',
      'signature-form',
      'signature',
      'qualified-signer',
      'pcr-bank',
      'pcr-selection',
      'pcr-resettable',
      'pcr-values',
      'pcr-digest',
      'key-unknown',
      'binding',
      'lock-counter',
      'pcr-missing',
      'clock-backward',
      'clock-unsafe',
      'eventlog-missing',
      'machine',
    ]);
  });

  test('is refused after a change of any byte in document, key, quote, signature, PCR values or Merkle path', () => {
    const options = {
      rules: RULES,
      endorsements: { attestationKeys: new Map([[recorded.attestationKeyName, {}]]) },
    };
    const logAt = evidence.length - decodeTpmEvidence(evidence).eventLog.length;
    for (const at of [...Array(logAt).keys(), ...logSample(logAt)]) {
      for (const mask of [0x01, 0x80]) {
        const altered = evidence.slice();
        altered[at] = (altered[at] ?? 0) ^ mask;
        expect(() => verifyTpmEvidence(altered, binding, options)).toThrow(
          expect.objectContaining({ code: expect.stringMatching(/^(quote|eventlog)-/) }),
        );
      }
    }
  });

  /** One hash covers the whole log, so it is enough to change a sample of its bytes. */
  function logSample(logAt: number): number[] {
    return Array.from({ length: 300 }, (_, index) => logAt + index * 51).filter((at) => at < evidence.length);
  }

  test('is refused for another binding', async () => {
    for (let bit = 0; bit < 512; bit += 17) {
      const other = binding.slice();
      other[bit >> 3] = (other[bit >> 3] ?? 0) ^ (1 << (bit & 7));
      await expect(judge(evidence, other, context)).rejects.toThrow(coded('quote-binding'));
    }
  });

  test.each([0, 1, 32, 63, 65])(
    'a binding of %i bytes is reported as a bug of the caller',
    async (length) => {
      await expect(judge(evidence, new Uint8Array(length), context)).rejects.toThrow(
        coded('attestation-binding-length'),
      );
    },
  );

  test('is refused before parsing if it exceeds the size limit', async () => {
    await expect(judge(new Uint8Array(MAX_EVIDENCE_BYTES + 1), binding, context)).rejects.toThrow(
      coded('attestation-evidence-too-large'),
    );
  });

  test('has exactly one encoding', () => {
    const { proof, eventLog, ...parts } = decodeTpmEvidence(evidence);
    expect(encodeTpmEvidence({ ...parts, ...proof, attachment: eventLog })).toEqual(evidence);
  });

  test('is refused with an error code after any random mutation', () => {
    const options = {
      rules: RULES,
      endorsements: { attestationKeys: new Map([[recorded.attestationKeyName, {}]]) },
    };
    const small = forgeEvidence({ binding });
    const accepted: string[] = [];
    const parse = (input: Uint8Array): void => {
      verifyTpmEvidence(input, binding, options);
      if (Buffer.compare(input, evidence) !== 0) accepted.push(hex(input));
    };
    const result = fuzz({ seeds: [evidence, small], parse, codes: ['quote-', 'eventlog-', 'attestation-'] });
    expect(result.refused).toBeGreaterThan(100);
    expect(accepted).toEqual([]);
  });
});

describe('a TPM quote', () => {
  let key: SoftKey;
  let context: ValidationContext;
  beforeAll(() => {
    key = createSoftKey();
    context = contextOf([[nameHexOf(key), {}]]);
  });

  const forge = (forged: Partial<ForgedEvidence> = {}): Uint8Array =>
    forgeEvidence({ binding, key, ...forged });
  const withAttributes = (attributes: number): Uint8Array => patched(key.publicArea, 4, u32(attributes));

  test('is accepted if the test changes nothing (the next tests change one property each)', async () => {
    const verdict = await judge(forge(), binding, context);
    expect(verdict.machineIdentity).toEqual({ kind: 'tpm-ak', id: nameHexOf(key), proof: 'pinned' });
  });

  const values = (entries: readonly (readonly [number, number])[]): ReadonlyMap<number, Uint8Array> =>
    new Map(entries.map(([pcr, fill]) => [pcr, new Uint8Array(32).fill(fill)]));
  const hostile: readonly {
    readonly name: string;
    readonly forged: () => Partial<ForgedEvidence>;
    /** The value that the refusal must report as found; set if another check refuses with the same code. */
    readonly found?: string;
    readonly code: string;
  }[] = [
    {
      name: 'a magic other than TPM_GENERATED_VALUE',
      forged: () => ({ statement: { magic: 0xff544346 } }),
      code: 'quote-magic',
    },
    {
      name: 'an attestation of type NV (0x8014)',
      forged: () => ({ statement: { type: 0x8014 } }),
      code: 'quote-type',
    },
    {
      name: 'an attestation of type certify (0x8017)',
      forged: () => ({ statement: { type: 0x8017 } }),
      code: 'quote-type',
    },
    {
      name: 'the null signature',
      forged: () => ({ alterSignature: () => bytes(0x00, 0x10) }),
      code: 'quote-signature-algorithm',
    },
    {
      name: 'a signature with SHA-1',
      forged: () => ({ alterSignature: (s) => patched(s, 2, [0, 4]) }),
      code: 'quote-signature-algorithm',
    },
    {
      name: 'an RSASSA signature for an ECDSA key',
      forged: () => ({ alterSignature: () => bytes(0, 0x14, 0, 0x0b, 0, 1, 1) }),
      code: 'quote-signature-scheme',
    },
    {
      name: 'a SHA-384 signature for a SHA-256 key',
      forged: () => ({ alterSignature: (s) => patched(s, 2, [0, 0x0c]) }),
      code: 'quote-signature-scheme',
    },
    {
      name: 'the second valid form of a signature (r, n - s)',
      forged: () => ({ alterSignature: twin }),
      code: 'quote-signature-form',
    },
    {
      name: 'a truncated signature',
      forged: () => ({ alterSignature: (s) => s.slice(0, -1) }),
      code: 'quote-signature-malformed',
    },
    {
      name: 'a wrong signature',
      forged: () => ({ alterSignature: (s) => patched(s, 20, [1, 2, 3]) }),
      code: 'quote-signature',
    },
    {
      name: 'a truncated statement',
      forged: () => ({ alterAttest: (a) => a.slice(0, -1) }),
      code: 'quote-attest-malformed',
    },
    {
      name: 'a statement with trailing bytes',
      forged: () => ({ alterAttest: (a) => Buffer.concat([a, bytes(0)]) }),
      code: 'quote-attest-malformed',
    },
    {
      name: 'a software key with the attributes of a TPM key',
      forged: () => ({ key: createSoftKey() }),
      code: 'quote-key-unknown',
    },
    {
      name: 'a key that is not restricted',
      forged: () => soft(AK_ATTRIBUTES & ~0x10000),
      code: 'quote-key-attributes',
    },
    {
      name: 'a key that can decrypt',
      forged: () => soft(AK_ATTRIBUTES | 0x20000),
      code: 'quote-key-attributes',
    },
    {
      name: 'a key without fixedTPM',
      forged: () => soft(AK_ATTRIBUTES & ~0x2),
      code: 'quote-key-attributes',
    },
    {
      name: 'a key without fixedParent',
      forged: () => soft(AK_ATTRIBUTES & ~0x10),
      code: 'quote-key-attributes',
    },
    {
      name: 'a key created outside the TPM (no sensitiveDataOrigin)',
      forged: () => soft(AK_ATTRIBUTES & ~0x20),
      code: 'quote-key-attributes',
    },
    {
      name: 'a key that cannot sign',
      forged: () => soft(AK_ATTRIBUTES & ~0x40000),
      code: 'quote-key-attributes',
    },
    {
      name: 'a key that may sign X.509 certificates',
      forged: () => soft(AK_ATTRIBUTES | 0x80000),
      code: 'quote-key-attributes',
    },
    {
      name: 'a key with changed attributes (noDA) and the same point',
      forged: () => ({ publicArea: withAttributes(AK_ATTRIBUTES ^ 0x400) }),
      code: 'quote-qualified-signer',
    },
    {
      name: 'a key with another Name algorithm and the same point',
      forged: () => ({ publicArea: patched(key.publicArea, 2, [0, 0x0c]) }),
      code: 'quote-qualified-signer',
    },
    {
      name: 'a key with a SHA-1 Name',
      forged: () => ({ publicArea: patched(key.publicArea, 2, [0, 4]) }),
      code: 'quote-key-malformed',
    },
    {
      name: 'a key without a signature scheme',
      forged: () => ({ publicArea: withoutScheme(key.publicArea) }),
      code: 'quote-key-scheme',
    },
    {
      name: 'a key whose point is not on the curve',
      forged: () => ({ publicArea: patched(key.publicArea, 22, [1, 2, 3]) }),
      code: 'quote-key-malformed',
    },
    {
      name: 'another qualifiedSigner',
      forged: () => ({ statement: { qualifiedSigner: new Uint8Array(34) } }),
      code: 'quote-qualified-signer',
    },
    {
      name: 'the extraData of another session',
      forged: () => ({ statement: { extraData: new Uint8Array(32) } }),
      code: 'quote-binding',
    },
    {
      name: 'an empty extraData',
      forged: () => ({ statement: { extraData: new Uint8Array() } }),
      code: 'quote-binding',
    },
    {
      name: 'a short extraData',
      forged: () => ({ statement: { extraData: new Uint8Array(16) } }),
      code: 'quote-binding',
    },
    {
      name: 'the binding of a session whose peer has another key',
      forged: () => ({ binding: new Uint8Array(64).fill(9) }),
      code: 'quote-binding',
    },
    {
      name: 'a missing required PCR',
      forged: () => ({
        pcrValues: values([
          [0, 1],
          [4, 1],
        ]),
      }),
      code: 'quote-pcr-missing',
    },
    { name: 'no PCR at all', forged: () => ({ pcrValues: new Map() }), code: 'quote-pcr-selection' },
    {
      name: 'only resettable PCRs',
      forged: () => ({
        pcrValues: values([
          [16, 1],
          [23, 1],
        ]),
      }),
      code: 'quote-pcr-resettable',
    },
    {
      name: 'two PCR selections',
      forged: () => ({ alterAttest: (a) => patched(a, SELECTION_AT + 3, [2]) }),
      code: 'quote-pcr-selection',
    },
    {
      name: 'PCRs of the SHA-1 bank',
      forged: () => ({ alterAttest: (a) => patched(a, SELECTION_AT + 4, [0, 4]) }),
      code: 'quote-pcr-bank',
    },
    {
      name: 'the value of another PCR',
      forged: () => ({
        shownValues: values([
          [0, 9],
          [4, 5],
          [15, 16],
        ]),
      }),
      code: 'quote-pcr-digest',
    },
    {
      name: 'one PCR value more than selected',
      forged: () => ({
        shownValues: values([
          [0, 1],
          [4, 5],
          [7, 7],
          [15, 16],
        ]),
      }),
      code: 'quote-pcr-values',
    },
    {
      name: 'one PCR value fewer than selected',
      forged: () => ({
        shownValues: values([
          [0, 1],
          [4, 5],
        ]),
      }),
      code: 'quote-pcr-values',
    },
    {
      name: 'PCR values in another order',
      forged: () => ({
        shownValues: values([
          [4, 5],
          [0, 1],
          [15, 16],
        ]),
      }),
      code: 'quote-pcr-values',
    },
    {
      name: 'a PCR value of 20 bytes',
      // This PCR value and the next one together have the right length, so only the length of each single value is
      // wrong.
      forged: () => ({
        shownValues: new Map([
          [0, new Uint8Array(20)],
          [1, new Uint8Array(44).fill(9)],
        ]),
      }),
      code: 'quote-pcr-values',
      found: '20',
    },
    {
      name: 'PCR values of the SHA-384 bank',
      forged: () => ({ shownValues: new Map([[0, new Uint8Array(48)]]) }),
      code: 'quote-pcr-values',
      found: '48',
    },
    {
      name: 'a malformed event log',
      forged: () => ({ eventLog: new Uint8Array(100) }),
      code: 'eventlog-header',
    },
    {
      name: 'a Merkle tree with an impossible shape',
      forged: () => ({
        proof: { size: 2, index: 1, path: [new Uint8Array(32)] },
        statement: { extraData: new Uint8Array(32) },
      }),
      code: 'quote-binding',
    },
  ];
  test.each(hostile)('is refused with $name', async ({ forged, code, found }) => {
    const refused: unknown = await judge(forge(forged()), binding, context).catch((error: unknown) => error);
    expect(() => {
      throw refused;
    }).toThrow(coded(code));
    if (found !== undefined) expect(refused).toMatchObject({ details: { actual: found } });
  });

  test('is refused for PCRs of the SHA-384 bank', async () => {
    const body = Buffer.concat([
      bytes(0, 0, 0, 1, 0, 0x0c, 3, 0x11, 0x80, 0),
      bytes(0, 32),
      Buffer.alloc(32),
    ]);
    await expect(judge(forge({ statement: { body } }), binding, context)).rejects.toThrow(
      coded('quote-pcr-bank'),
    );
  });

  test('a refusal contains the expected and the actual value and the checks that passed', async () => {
    const refused = judge(forge({ pcrValues: values([[0, 1]]) }), binding, context);
    await expect(refused).rejects.toMatchObject({
      code: 'quote-pcr-missing',
      details: { expected: '0,4,15', actual: '0' },
      checks: expect.arrayContaining([{ name: 'signature', outcome: 'pass' }]) as unknown,
    });
  });

  /**
   * Evidence that is signed with a software key. The key has these attributes, and the cluster has enrolled its Name.
   */
  function soft(attributes: number): Partial<ForgedEvidence> {
    const other = createSoftKey(attributes);
    context = contextOf([
      [nameHexOf(key), {}],
      [nameHexOf(other), {}],
    ]);
    return { key: other };
  }

  /** The second valid form of a signature, (r, n - s), which anybody can compute. */
  function twin(signature: Uint8Array): Uint8Array {
    const parsed = parseSignature(signature);
    if (parsed.algorithm !== 'ecdsa') throw new Error('not ECDSA');
    const s = CURVES.p256.order - BigInt(`0x${hex(parsed.s)}`);
    return encodeSignature({ ...parsed, s: Buffer.from(s.toString(16).padStart(64, '0'), 'hex') });
  }
});

describe('quotes shared by a batch', () => {
  const key = createSoftKey();
  const context = contextOf([[nameHexOf(key), {}]]);
  const bindingOf = (index: number): Uint8Array => new Uint8Array(64).fill(index + 1);
  const size = 5;
  const { paths } = merkleTree(Array.from({ length: size }, (_, index) => leafHash(bindingOf(index))));
  const proofOf = (index: number) => ({ size, index, path: paths[index] ?? [] });
  const forge = (index: number): Uint8Array =>
    forgeEvidence({ binding: bindingOf(index), key, proof: proofOf(index) });

  test('the evidence of each caller is accepted for its own binding only', async () => {
    for (let index = 0; index < size; index++) {
      await expect(judge(forge(index), bindingOf(index), context)).resolves.toMatchObject({ accepted: true });
      const other = bindingOf((index + 1) % size);
      await expect(judge(forge(index), other, context)).rejects.toThrow(coded('quote-binding'));
    }
  });

  test('evidence replayed in the next session of the same peer is refused', async () => {
    await expect(judge(forge(2), bindingOf(99), context)).rejects.toThrow(coded('quote-binding'));
  });

  test.each([
    { name: 'another tree size but the same path length', change: { size: 6 } },
    { name: 'another leaf index', change: { index: 1 } },
    { name: 'exchanged sibling hashes', change: { path: [...(paths[0] ?? [])].reverse() } },
  ])('a Merkle proof with $name is refused', async ({ change }) => {
    const document = decodeTpmEvidence(forge(0));
    const { proof, eventLog, ...parts } = document;
    const altered = encodeTpmEvidence({ ...parts, attachment: eventLog, ...proof, ...change });
    await expect(judge(altered, bindingOf(0), context)).rejects.toThrow(coded('quote-binding'));
  });

  test.each([
    { name: 'one sibling hash too many', change: { path: [...(paths[0] ?? []), new Uint8Array(32)] } },
    { name: 'one sibling hash too few', change: { path: (paths[0] ?? []).slice(1) } },
    { name: 'an empty tree', change: { size: 0 } },
    { name: 'a leaf index beyond the tree', change: { index: 5 } },
    { name: 'a tree of 2^32 - 1 leaves', change: { size: 0xffffffff } },
    {
      name: 'a path of 11 sibling hashes',
      change: { size: 1024, path: Array<Uint8Array>(11).fill(new Uint8Array(32)) },
    },
  ])('a malformed Merkle proof with $name is refused', async ({ change }) => {
    const { proof, eventLog, ...parts } = decodeTpmEvidence(forge(0));
    const altered = encodeTpmEvidence({ ...parts, attachment: eventLog, ...proof, ...change });
    await expect(judge(altered, bindingOf(0), context)).rejects.toThrow(coded('quote-proof-malformed'));
  });
});

describe('the TPM clock', () => {
  const key = createSoftKey();
  const seen: ClockInfo = { clockMs: 5000n, resetCount: 3, restartCount: 2, safe: true };
  const at = (clock: Partial<ClockInfo>, lastSeen: ClockInfo | undefined, rules: Partial<TpmRules> = {}) =>
    judge(
      forgeEvidence({ binding, key, statement: { clock: { ...seen, ...clock } } }),
      binding,
      contextOf([[nameHexOf(key), lastSeen === undefined ? {} : { lastSeen }]], { rules }),
    );

  test.each([
    { name: 'advances', clock: { clockMs: 5001n } },
    { name: 'does not change', clock: {} },
    { name: 'advances after a reset', clock: { resetCount: 4, restartCount: 0, clockMs: 6000n } },
    {
      name: 'goes back a little after a power loss',
      clock: { resetCount: 4, restartCount: 0, clockMs: 4000n, safe: false },
    },
  ])('is accepted if it $name', async ({ clock }) => {
    const verdict = await at(clock, seen);
    expect(clockOfVerdict(verdict)).toEqual({ ...seen, ...clock });
  });

  test.each([
    { name: 'its clock value', clock: { clockMs: 4999n } },
    { name: 'its reset count', clock: { resetCount: 2, clockMs: 9000n } },
    { name: 'its restart count', clock: { restartCount: 1, clockMs: 9000n } },
    { name: 'its clock value, although the reset was orderly', clock: { resetCount: 4, clockMs: 4000n } },
    {
      name: 'its clock value without a restart, although it is marked unsafe',
      clock: { clockMs: 4000n, safe: false },
    },
  ])('is refused if it goes back in $name', async ({ clock }) => {
    await expect(at(clock, seen)).rejects.toThrow(coded('quote-clock-backward'));
  });

  test('is refused if it may have gone back and the policy requires a safe clock', async () => {
    await expect(at({ safe: false }, undefined, { requireSafeClock: true })).rejects.toThrow(
      coded('quote-clock-unsafe'),
    );
    await expect(at({ safe: false }, undefined)).resolves.toMatchObject({ claims: { safe: false } });
  });
});

describe('the firmware event log', () => {
  const key = createSoftKey();
  const log = buildLog([{ register: 4, type: 4, data: Buffer.from('kernel') }]);
  const rules = { eventLog: 'required', loggedPcrs: [4] } as const;
  const judged = (forged: Partial<ForgedEvidence>) =>
    judge(forgeEvidence({ binding, key, ...forged }), binding, contextOf([[nameHexOf(key), {}]], { rules }));

  test('is refused if it is missing and the policy requires it', async () => {
    await expect(judged({})).rejects.toThrow(coded('quote-eventlog-missing'));
  });

  test('is refused if it does not replay to the quoted values; the refusal lists the passed checks', async () => {
    await expect(judged({ eventLog: log })).rejects.toMatchObject({
      code: 'eventlog-replay',
      details: { register: 4 },
      checks: expect.arrayContaining([{ name: 'signature', outcome: 'pass' }]) as unknown,
    });
  });

  test('is refused if it was replaced by another log, even by one that replays too', async () => {
    const { proof, eventLog, ...parts } = decodeTpmEvidence(forgeEvidence({ binding, key, eventLog: log }));
    const altered = encodeTpmEvidence({ ...parts, ...proof, attachment: eventLog.slice(0, -6) });
    const context = contextOf([[nameHexOf(key), {}]], { rules });
    await expect(judge(altered, binding, context)).rejects.toThrow(coded('quote-binding'));
  });
});

describe('the TPM section of a policy', () => {
  const key = createSoftKey();
  const known = [[nameHexOf(key), {}]] as const;
  const bytesOfPcr4 = '05'.repeat(32);
  const forged = (): Uint8Array => forgeEvidence({ binding, key });
  const register = (accepted: readonly string[], warnOnly = false) =>
    new Map([['pcr4', { accepted, warnOnly }]]);

  test('accepts any of several reference values', async () => {
    const registers = register(['00'.repeat(32), bytesOfPcr4]);
    const verdict = await judge(forged(), binding, contextOf(known, { policy: { registers } }));
    expect(verdict.checks).toContainEqual(
      expect.objectContaining({ name: 'register-pcr4', outcome: 'pass' }),
    );
  });

  test('refuses a mismatch, but only warns if the register is warnOnly', async () => {
    const wrong = ['00'.repeat(32)];
    await expect(
      judge(forged(), binding, contextOf(known, { policy: { registers: register(wrong) } })),
    ).rejects.toMatchObject({
      code: 'attestation-register-mismatch',
      details: { register: 'pcr4', actual: bytesOfPcr4 },
    });
    const warned = await judge(
      forged(),
      binding,
      contextOf(known, { policy: { registers: register(wrong, true) } }),
    );
    expect(warned.checks).toContainEqual(expect.objectContaining({ name: 'register-pcr4', outcome: 'warn' }));
    expect(warned.warnings).toHaveLength(1);
  });

  test('refuses a register that was not quoted', async () => {
    const registers = new Map([['pcr9', { accepted: [bytesOfPcr4], warnOnly: false }]]);
    await expect(judge(forged(), binding, contextOf(known, { policy: { registers } }))).rejects.toThrow(
      coded('attestation-register-missing'),
    );
  });

  test.each([
    {
      name: 'a missing tpm section',
      change: (c: ValidationContext) => ({ ...c, policy: policyWithout(c) }),
      code: 'attestation-policy-missing',
    },
    {
      name: 'missing endorsements',
      change: (c: ValidationContext) => ({ ...c, collateral: {} }),
      code: 'attestation-policy-missing',
    },
  ])('refuses all evidence because of $name', async ({ change, code }) => {
    await expect(judge(forged(), binding, change(contextOf(known)))).rejects.toThrow(coded(code));
  });

  test.each([
    { name: 'no required PCR', rules: { requiredPcrs: [] } },
    { name: 'only resettable PCRs', rules: { requiredPcrs: [16, 23] } },
    { name: 'a required PCR that does not exist', rules: { requiredPcrs: [0, 24] } },
    { name: 'a required PCR that is not an integer', rules: { requiredPcrs: [0.5] } },
    { name: 'a logged PCR that does not exist', rules: { loggedPcrs: [-1] } },
  ])('is invalid with $name', async ({ rules }) => {
    await expect(judge(forged(), binding, contextOf(known, { rules }))).rejects.toThrow(
      coded('attestation-policy-invalid'),
    );
  });

  test.each(['pcr16', 'pcr23'])(
    'cannot have a reference value for %s, which any software can reset',
    async (name) => {
      const registers = new Map([[name, { accepted: [bytesOfPcr4], warnOnly: false }]]);
      await expect(judge(forged(), binding, contextOf(known, { policy: { registers } }))).rejects.toThrow(
        coded('attestation-policy-invalid'),
      );
    },
  );

  test('accepts no evidence if a list of reference values is empty', async () => {
    await expect(
      judge(forged(), binding, contextOf(known, { policy: { registers: register([]) } })),
    ).rejects.toThrow(coded('attestation-policy-invalid'));
  });

  test('accepts an unknown key only for enrolment; the machine is then unproved and never counts as listed', async () => {
    const enrolling = { attestationKeys: 'enrolling' } as const;
    const verdict = await judge(
      forged(),
      binding,
      contextOf([], { rules: enrolling, policy: { machines: 'any' } }),
    );
    expect(verdict.machineIdentity).toEqual({ kind: 'tpm-ak', id: nameHexOf(key), proof: 'unproved' });
    expect(verdict.checks).toContainEqual(
      expect.objectContaining({ name: 'key-unknown', outcome: 'skipped' }),
    );
    for (const machines of ['any-proved', new Set([`tpm-ak:${nameHexOf(key)}`])] as const) {
      await expect(
        judge(forged(), binding, contextOf([], { rules: enrolling, policy: { machines } })),
      ).rejects.toThrow(coded('attestation-machine-unknown'));
    }
  });

  test('identifies machines by their endorsement key where it is known', async () => {
    const endorsementKeyId = 'cd'.repeat(32);
    const machines = new Set([`tpm-ek:${endorsementKeyId}`]);
    const context = contextOf([[nameHexOf(key), { endorsementKeyId }]], { policy: { machines } });
    await expect(judge(forged(), binding, context)).resolves.toMatchObject({ accepted: true });
    const other = contextOf([[nameHexOf(key), { endorsementKeyId: 'ce'.repeat(32) }]], {
      policy: { machines },
    });
    await expect(judge(forged(), binding, other)).rejects.toThrow(coded('attestation-machine-unknown'));
  });
});

test('decodeTpmEvidence() and the verifier throw only refusals for arbitrary bytes', () => {
  const options = { rules: RULES, endorsements: { attestationKeys: new Map<string, KnownAttestationKey>() } };
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 300 }), (bytes) => {
      expect(() =>
        verifyTpmEvidence(Buffer.concat([Buffer.from('CTPM\x01\x06'), bytes]), binding, options),
      ).toThrow(expect.objectContaining({ code: expect.stringMatching(/^quote-/) }));
    }),
  );
});

/** The offset of TPML_PCR_SELECTION in a statement with a SHA-256 Name and a hash of 32 bytes as extraData. */
const SELECTION_AT = 4 + 2 + 36 + 34 + 17 + 8;

function bytes(...values: readonly number[]): Uint8Array {
  return Uint8Array.from(values);
}

function u32(value: number): readonly number[] {
  return [value >>> 24, (value >>> 16) & 0xff, (value >>> 8) & 0xff, value & 0xff];
}

function patched(source: Uint8Array, at: number, by: readonly number[]): Uint8Array {
  const copy = source.slice();
  copy.set(by, at);
  return copy;
}

/** The scheme and its hash (4 bytes) replaced by TPM_ALG_NULL (2 bytes). */
function withoutScheme(publicArea: Uint8Array): Uint8Array {
  return Buffer.concat([publicArea.subarray(0, 12), bytes(0, 0x10), publicArea.subarray(16)]);
}

function policyWithout({ policy }: ValidationContext): ValidationContext['policy'] {
  const { version, registers, machines } = policy;
  return { version, registers, machines };
}
