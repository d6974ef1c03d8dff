import { readFileSync } from 'node:fs';
import { describe, expect, test } from '@jest/globals';
import { FileError, type FilePort } from '../../file/index.ts';
import { FakeClock, FakeTpm } from '../../testing/index.ts';
import { buildLog, sha256 } from '../../testing/tpm/event-log.ts';
import { nameHexOf } from '../../testing/tpm/tpm-evidence.ts';
import { Tpm } from '../../tpm/index.ts';
import { parseEventLog } from '../eventlog/index.ts';
import { decodeTpmEvidence } from './evidence.ts';
import { createTpmIssuer, MAX_ATTACHED_LOG_BYTES, readEventLog } from './issuer.ts';
import { measureMachine } from './measure.ts';
import { verifyTpmEvidence } from './verify-evidence.ts';

const never = new AbortController().signal;
const binding = new Uint8Array(64).fill(1);

function setUp() {
  const clock = new FakeClock();
  const fake = new FakeTpm({ clock });
  return { fake, tpm: new Tpm({ source: fake, clock }) };
}

/** A file port with one file and its size limit. The tests use no other method of the port. */
function filesWith(content: Uint8Array | undefined): { readonly files: FilePort; readonly path: string } {
  const read = async (_path: string, maxBytes: number): Promise<Uint8Array | undefined> => {
    if (content !== undefined && content.length > maxBytes) throw new FileError('file-too-large', 'reading');
    return content;
  };
  return { files: { read } as Partial<FilePort> as FilePort, path: '/log' };
}

describe('createTpmIssuer()', () => {
  test('issues evidence that the verifier accepts, with the given event log', async () => {
    const { fake, tpm } = setUp();
    const log = buildLog([{ register: 4, type: 4, data: Buffer.from('kernel') }]);
    fake.extend(4, sha256(Buffer.from('kernel')));
    const issuer = createTpmIssuer({ tpm, pcrs: [0, 4], eventLog: filesWith(log) });
    const evidence = await issuer.issue(binding, never);
    const verified = verifyTpmEvidence(evidence, binding, {
      rules: {
        attestationKeys: 'enrolled',
        requiredPcrs: [0, 4],
        loggedPcrs: [4],
        requireSafeClock: true,
        eventLog: 'required',
      },
      endorsements: { attestationKeys: new Map([[nameHexOf(fake.key), {}]]) },
    });
    expect([issuer.variant, verified.eventCount]).toEqual(['tpm', 1]);
  });

  test.each([0, 63, 65])(
    'refuses a binding of %i bytes before it sends a command to the TPM',
    async (length) => {
      const { fake, tpm } = setUp();
      const issued = createTpmIssuer({ tpm, pcrs: [0] }).issue(new Uint8Array(length), never);
      await expect(issued).rejects.toMatchObject({ code: 'attestation-binding-length' });
      expect(fake.commands).toEqual([]);
    },
  );

  test.each([
    { name: 'the machine has no event log', content: undefined },
    { name: 'the event log is too large to send', content: new Uint8Array(MAX_ATTACHED_LOG_BYTES + 1) },
  ])('issues evidence without an event log when $name', async ({ content }) => {
    const { tpm } = setUp();
    const issuer = createTpmIssuer({ tpm, pcrs: [0], eventLog: filesWith(content) });
    expect(decodeTpmEvidence(await issuer.issue(binding, never)).eventLog).toHaveLength(0);
  });

  test('fails when the event log cannot be read', async () => {
    const files = { read: () => Promise.reject(new FileError('file-permission', 'reading')) };
    await expect(readEventLog(files as Partial<FilePort> as FilePort, '/log')).rejects.toMatchObject({
      code: 'file-permission',
    });
  });
});

describe('measureMachine()', () => {
  const bytes = new Uint8Array(
    readFileSync(new URL('../eventlog/fixtures/arch-linux-workstation.bin', import.meta.url)),
  );

  test('returns used registers as reference values, and the events that explain them', async () => {
    const { fake, tpm } = setUp();
    for (const event of parseEventLog(bytes, 'tpm').events) {
      if (event.type !== 3) fake.extend(event.register, event.digests.get('sha256') ?? new Uint8Array());
    }
    fake.extend(15, sha256(Buffer.from('cluster')));
    fake.extend(16, sha256(Buffer.from('debug')));
    fake.pcrs.set(17, new Uint8Array(32).fill(0xff));
    const measured = await measureMachine({ tpm, eventLog: filesWith(bytes) }, never);
    expect(Object.keys(measured.registers)).toEqual(
      [0, 1, 2, 3, 4, 5, 6, 7, 8, 15].map((pcr) => `pcr${pcr}`),
    );
    expect(measured.registers['pcr4']).toEqual({
      accepted: ['925d453d3dfef4ac0c72c957402163d45fa95d05e6d53f047263a3a60b598325'],
      warnOnly: false,
    });
    expect(Object.keys(measured.values)).toHaveLength(24);
    expect(measured.eventLog?.explained).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8].map((pcr) => `pcr${pcr}`));
    expect(measured.eventLog?.unexplained).toEqual(['pcr15', 'pcr16']);
    expect(measured.eventLog?.events).toHaveLength(24);
    expect(measured.eventLog?.events.every((event) => /^[ -~…]*$/.test(event.text))).toBe(true);
  });

  test('measures a machine without an event log', async () => {
    const { tpm } = setUp();
    expect(await measureMachine({ tpm }, never)).toMatchObject({ registers: {}, eventLog: undefined });
  });
});
