import { describe, expect, test } from '@jest/globals';
import { COUNTER_ATTRIBUTES, LOCK_COUNTER, lockCounterExtraData } from '../../tpm/index.ts';
import { createSoftKey } from '../../testing/tpm/fake-tpm.ts';
import { forgeEvidence, nameHexOf, type ForgedCounter } from '../../testing/tpm/tpm-evidence.ts';
import type { ValidationContext, Verdict } from '../verdict.ts';
import { decodeTpmEvidence, encodeTpmEvidence } from './evidence.ts';
import { lockCounterOf, TpmValidator } from './validator.ts';

const key = createSoftKey();
const binding = new Uint8Array(64).fill(3);
const context: ValidationContext = {
  nowMs: 0,
  policy: {
    version: 'test-1',
    registers: new Map(),
    machines: 'any',
    tpm: {
      attestationKeys: 'enrolled',
      requiredPcrs: [0],
      loggedPcrs: [],
      requireSafeClock: false,
      eventLog: 'optional',
    },
  },
  collateral: { tpm: { attestationKeys: new Map([[nameHexOf(key), {}]]) } },
};

const forge = (lockCounter?: ForgedCounter): Uint8Array =>
  forgeEvidence({ binding, key, ...(lockCounter === undefined ? {} : { lockCounter }) });
const judge = (evidence: Uint8Array, to = binding): Promise<Verdict> =>
  new TpmValidator().validate(evidence, to, context);
const coded = (code: string): unknown => expect.objectContaining({ code });

describe('TPM evidence with a certified lock counter', () => {
  test('the verdict contains the value of the lock counter', async () => {
    const verdict = await judge(forge({ value: 7n }));
    expect(lockCounterOf(verdict)).toBe(7n);
    expect(verdict.checks).toContainEqual({ name: 'lock-counter', outcome: 'pass', actual: '7' });
  });

  test('the check of the lock counter is skipped for a machine without one', async () => {
    const verdict = await judge(forge());
    expect(lockCounterOf(verdict)).toBeUndefined();
    expect(verdict.checks).toContainEqual({ name: 'lock-counter', outcome: 'skipped', actual: 'none' });
  });

  test('lockCounterOf() also reads the counter from a verdict about a TPM together with a processor', () => {
    expect(lockCounterOf({ claims: { 'tpm.lockCounter': '9' } })).toBe(9n);
  });

  const otherQuote = lockCounterExtraData(new Uint8Array(32));
  const hostile: readonly { name: string; counter: ForgedCounter; code: string }[] = [
    {
      name: 'a lock counter certified for another quote',
      counter: { statement: { extraData: otherQuote } },
      code: 'quote-lock-counter',
    },
    {
      name: 'a lock counter certified by another key',
      counter: { by: createSoftKey() },
      code: 'quote-lock-counter',
    },
    {
      name: 'a lock counter certified over another NV index',
      counter: { index: { ...LOCK_COUNTER, index: 0x01800001 } },
      code: 'quote-lock-counter',
    },
    {
      name: 'a lock counter certified over an index without a value',
      counter: { index: { ...LOCK_COUNTER, attributes: COUNTER_ATTRIBUTES } },
      code: 'quote-lock-counter',
    },
    {
      name: 'a lock counter certified over a writable index that is not a counter',
      counter: { index: { ...LOCK_COUNTER, attributes: LOCK_COUNTER.attributes & ~(1 << 4) } },
      code: 'quote-lock-counter',
    },
    {
      name: 'a lock counter certified over half of its bytes',
      counter: { contents: new Uint8Array(4) },
      code: 'quote-lock-counter',
    },
    {
      name: 'a lock counter certified from an offset other than 0',
      counter: { offset: 1 },
      code: 'quote-lock-counter',
    },
    {
      name: 'a quote in place of the lock counter certificate',
      counter: { statement: { type: 0x8018 } },
      code: 'quote-lock-counter',
    },
    {
      name: 'a lock counter certificate that the signed quote does not announce',
      counter: { isAnnounced: false },
      code: 'quote-binding',
    },
    {
      name: 'evidence without the lock counter certificate that the signed quote announces',
      counter: { isMissing: true },
      code: 'quote-binding',
    },
  ];
  test.each(hostile)('the verifier refuses $name', async ({ counter, code }) => {
    await expect(judge(forge(counter))).rejects.toThrow(coded(code));
  });

  test('the verifier refuses a lock counter certificate of the same machine from another session', async () => {
    const [mine, other] = [forge({}), forgeEvidence({ binding: new Uint8Array(64), key, lockCounter: {} })];
    const { proof, eventLog, ...parts } = decodeTpmEvidence(mine);
    const { lockCounter } = decodeTpmEvidence(other);
    if (lockCounter === undefined) throw new Error('no certificate');
    const mixed = encodeTpmEvidence({ ...parts, ...proof, attachment: eventLog, lockCounter });
    await expect(judge(mixed)).rejects.toThrow(coded('quote-lock-counter'));
  });

  test('a document with only half of the lock counter certificate is malformed', async () => {
    const whole = forge({});
    const size = decodeTpmEvidence(whole).lockCounter?.signature.length ?? 0;
    const half = whole.slice(0, whole.length - size - 4);
    half[5] = 7;
    await expect(judge(half)).rejects.toThrow(coded('quote-document-malformed'));
  });

  test('a change of any byte of the lock counter certificate is refused', async () => {
    const whole = forge({});
    const { attest, signature } = decodeTpmEvidence(whole).lockCounter ?? {};
    const bytes = (attest?.length ?? 0) + (signature?.length ?? 0) + 8;
    for (let at = whole.length - bytes; at < whole.length; at++) {
      const changed = whole.slice();
      changed[at] = (changed[at] ?? 0) ^ (1 << (at % 8));
      await expect(judge(changed)).rejects.toThrow(coded(expect.stringMatching(/^quote-/) as never));
    }
    expect(bytes).toBeGreaterThan(200);
  });
});
