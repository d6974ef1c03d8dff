import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import {
  decodeEnrolmentRequest,
  decryptWithTpm,
  encodeChallenge,
  endorsementKeyIdOf,
} from '../../internal/attestation/enrolment/index.ts';
import { encodeDiskShareStatement } from '../../internal/crypto/index.ts';
import { put } from '../../internal/etcd/index.ts';
import { records, type MachineRecord, type NodeRecord } from '../../internal/records/index.ts';
import { configurationWrite, createSwtpmFactory } from '../../internal/testing/index.ts';
import { DiskShareGiver } from './disk-share-giver.ts';
import { FakeSigner, SignerMachine } from './fake-signer.ts';

const signal = new AbortController().signal;
const UUID = '0f7a1c2e-5b8d-4c3a-9e6f-1a2b3c4d5e6f';
const PROGRAM = join(import.meta.dirname, '../../bootstrapper/attest/stub-evidence-program.mjs');
const CONFIGURATION = {
  attestation: {
    firstContact: 'fingerprint',
    variants: ['tpm'],
    policy: {
      name: 'test',
      profile: 'identity',
      machines: 'any-proved',
      registers: { pcr7: { expected: '00'.repeat(32) } },
      tpm: { requiredPcrs: [0, 4, 7], eventLog: 'optional' },
    },
  },
  join: { policy: 'approve', inventory: [] },
};

let ending: AsyncDisposableStack;
let socketPath: string;
beforeAll(async () => {
  ending = new AsyncDisposableStack();
  const factory = ending.use(await createSwtpmFactory());
  ({ socketPath } = ending.use(await factory.start()));
}, 60_000);
afterAll(() => ending.disposeAsync());

/** An agent on the machine of these tests, with a directory of its own. */
class Agent implements AsyncDisposable {
  readonly #directory: string;
  readonly #child;
  readonly #lines: AsyncIterator<string>;

  static async start(): Promise<Agent> {
    return new Agent(await mkdtemp(join(tmpdir(), 'agent-evidence-')));
  }

  private constructor(directory: string) {
    this.#directory = directory;
    this.#child = spawn(process.execPath, [PROGRAM, socketPath, directory], {
      stdio: ['pipe', 'pipe', 'inherit'],
    });
    this.#lines = createInterface({ input: this.#child.stdout })[Symbol.asyncIterator]();
  }

  /** What the agent answers. */
  async do<T = string>(what: string, request: Readonly<Record<string, string>> = {}): Promise<T> {
    this.#child.stdin.write(`${JSON.stringify({ do: what, ...request })}\n`);
    const { value: line = '{}' } = (await this.#lines.next()) as { readonly value?: string };
    const { value, error } = JSON.parse(line) as { readonly value?: T; readonly error?: string };
    if (value === undefined) throw new Error(`${what}: ${error ?? 'the agent has ended'}`);
    return value;
  }

  async enrolment(): Promise<Uint8Array> {
    return bytes(await this.do('enrolment'));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const ended = new Promise((resolve) => this.#child.once('exit', resolve));
    this.#child.stdin.end();
    await ended;
    await rm(this.#directory, { recursive: true });
  }
}

const bytes = (text: string): Uint8Array => new Uint8Array(Buffer.from(text, 'base64'));
const base64 = (value: Uint8Array): string => Buffer.from(value).toString('base64');

let signer: FakeSigner;
let record: NodeRecord;
beforeEach(async () => {
  signer = await FakeSigner.create('a1'.repeat(16));
  await signer.files.writeAtomic('/keys/disk-shares.key', '5e'.repeat(32));
  const write = configurationWrite(CONFIGURATION);
  signer.write(write, signer.owner.policyWrite(write, { serial: 2 }));
  await using agent = await Agent.start();
  const id = endorsementKeyIdOf(decodeEnrolmentRequest(await agent.enrolment()).endorsementKey);
  const identity = `tpm-ek:${id}`;
  const machine = new SignerMachine();
  const admission = { ...machine.machine, identity, variant: 'tpm', decidedBy: 'operator:o', timeMs: 1 };
  record = machine.record('w1', ['KubernetesWorker'], { admission });
  signer.put(record);
  const held = { version: 1, nodeId: record.nodeId } as const;
  signer.write(put(records.identity.key(identity), records.identity.encode(held)));
});

/** The cluster share that the agent gets, hex. */
async function shareOf(agent: Agent): Promise<string> {
  await signer.clock.advance(1);
  const { clusterId } = signer.cluster;
  const said = {
    ...{ uuid: UUID, timeMs: signer.clock.nowMs() },
    ...{ enrolment: await agent.enrolment(), session: new Uint8Array(randomBytes(64)) },
  };
  const statement = base64(encodeDiskShareStatement({ ...said, clusterId }));
  const shown = await agent.do<{ readonly variant: string; readonly document: string }>('evidence', {
    statement,
  });
  const evidence = [{ variant: shown.variant, document: bytes(shown.document) }];
  const { answer } = await new DiskShareGiver(signer.reads).give({ ...said, evidence }, signal);
  const box = {
    challenge: base64(answer.challenge),
    nonce: base64(answer.nonce),
    ciphertext: base64(answer.ciphertext),
  };
  const share = await decryptWithTpm(box, said.session, async (challenge, session) =>
    bytes(
      await agent.do('activate', {
        challenge: base64(encodeChallenge(challenge)),
        session: base64(session),
      }),
    ),
  );
  return Buffer.from(share.reveal()).toString('hex');
}

function recordCounter(lockCounter: string): void {
  const admission = record.admission as MachineRecord & NonNullable<NodeRecord['admission']>;
  signer.put({ ...record, admission: { ...admission, lockCounter } });
}

describe('an agent with a real TPM and a real signer', () => {
  test('a machine whose disk is closed gets the same share at each start, and later as a running member', async () => {
    await using first = await Agent.start();
    const share = await shareOf(first);
    expect(share).toMatch(/^[0-9a-f]{64}$/);
    await using second = await Agent.start();
    expect(await shareOf(second)).toBe(share);
    await using running = await Agent.start();
    recordCounter(await running.do('lock', { clusterId: signer.cluster.clusterId }));
    expect(await shareOf(running)).toBe(share);
  });

  test('a machine that was locked again since it joined gets none', async () => {
    await using agent = await Agent.start();
    recordCounter('99');
    await expect(shareOf(agent)).rejects.toMatchObject({ code: 'signer-machine-other' });
  });
});
