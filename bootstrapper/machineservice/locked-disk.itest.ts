import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { generateKeyPairSync } from 'node:crypto';
import { appendFile, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { LockedDisk as LockedDiskApi } from '../../initproto/gen/disk_pb.js';
import { InitApi } from '../../initproto/gen/init_pb.js';
import {
  atlsClientUpgrade,
  INIT_CONTEXT,
  RotatingKeys,
  type AttestedPeer,
} from '../../internal/atls/index.ts';
import {
  decodeEnrolmentRequest,
  encryptForTpm,
  verifyEndorsement,
} from '../../internal/attestation/enrolment/index.ts';
import { OwnerKeyIssuer } from '../../internal/attestation/ownerkey/index.ts';
import {
  createValidators,
  parsePolicy,
  standardValidators,
} from '../../internal/attestation/policy/index.ts';
import { CertificateCache, parsePem } from '../../internal/attestation/x509/index.ts';
import { SystemClock } from '../../internal/clock/index.ts';
import { DiskFiles, KernelFiles } from '../../internal/file/index.ts';
import { createClient, RpcChannel } from '../../internal/rpc/index.ts';
import { rawX25519, x25519PrivateKey } from '../../internal/crypto/index.ts';
import { ExecaRunner } from '../../internal/exec/index.ts';
import { Secret } from '../../internal/secret/index.ts';
import {
  answerConsoleChallenge,
  createConsoleChallenge,
  decodeTyped,
  digestOfShare,
  splitRecoveryKey,
  wrapForConsole,
  type OwnerRecovery,
} from '../../internal/statedisk/index.ts';
import { createMemoryLogger, createSwtpmFactory, type SwtpmFactory } from '../../internal/testing/index.ts';
import type { Tpm } from '../../internal/tpm/index.ts';
import { createMachineEvidence } from '../attest/index.ts';
import { DiskError } from '../disk/index.ts';
import { findCodeSources } from './code-entry.ts';
import {
  createLockedDiskServer,
  untilRecovered,
  type ConsoleEntry,
  type LockedDiskPorts,
} from './locked-disk.ts';

const signal = new AbortController().signal;
const clock = new SystemClock();
const owner = generateKeyPairSync('ed25519');
const ownerRaw = new Uint8Array(owner.publicKey.export({ type: 'spki', format: 'der' }).subarray(-32));
const machineKeyPem = new Secret(
  generateKeyPairSync('ed25519').privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
);
const reason = new DiskError('disk-locked', 'unsealing the node share of the state disk: changed: pcr7');
const KEY = new Uint8Array(32).fill(7);
const ONE_OWNER: OwnerRecovery = { kind: 'key', sealed: new Uint8Array(3) };
const registers = [{ pcr: 7, sealed: new Uint8Array(32), now: new Uint8Array(32).fill(1) }];

let factory: SwtpmFactory;
let directory: string;
beforeAll(async () => void (factory = await createSwtpmFactory()));
afterAll(async () => void (await factory[Symbol.asyncDispose]()));
beforeEach(async () => void (directory = await mkdtemp(join(tmpdir(), 'locked-disk-'))));

/** A machine with a real TPM and a locked disk that opens with `KEY`, and an owner who is connected to it. */
async function withMachine(
  use: (at: {
    readonly channel: RpcChannel<AttestedPeer>;
    readonly tpm: Tpm;
    readonly tried: number[];
    readonly isRecovered: () => boolean;
    /** Resolves when nothing reads codes any more. */
    readonly ended: Promise<void>;
  }) => Promise<void>,
  {
    consoleEntry,
    recovery = ONE_OWNER,
    reasonNow = () => reason,
  }: { consoleEntry?: ConsoleEntry; recovery?: OwnerRecovery; reasonNow?: () => DiskError } = {},
): Promise<void> {
  await using chip = await factory.start();
  await using tpm = chip.open();
  const tried: number[] = [];
  const { log } = createMemoryLogger();
  const evidence = createMachineEvidence({
    provisioning: {
      tpm: { kind: 'socket', path: chip.socketPath, lockPcr: 15, sealedPcrs: [7] },
      processor: 'none',
    },
    ...{ tpm, machineKeyPem, clock, files: new DiskFiles(), kernel: new KernelFiles() },
    keySecretPath: join(directory, 'ak-secret'),
    mirrorLock: () => Promise.resolve(),
  });
  const ports: LockedDiskPorts = {
    ...{ evidence, clock, log, ownerKeys: [ownerRaw], device: '/dev/sdb', agentVersion: '0.1.0' },
    get reason() {
      return reasonNow();
    },
    fingerprint: 'sha256:00',
    machine: { hostname: () => 'n2', addresses: () => ['127.0.0.1'], architecture: () => 'amd64' } as never,
    openConsole: () => Promise.resolve(consoleEntry),
    read: () => Promise.resolve({ uuid: 'uuid', recovery, consoleRecovery: undefined, registers }),
    recover: async (recoveryKey) => {
      const first = recoveryKey.reveal()[0] ?? 0;
      tried.push(first);
      await Promise.resolve();
      if (first !== KEY[0]) throw new DiskError('disk-recovery-refused', 'opening the state disk');
    },
  };
  const locked = createLockedDiskServer(ports, signal);
  const { recovered } = locked;
  const stop = new AbortController();
  const ended = untilRecovered(ports, locked, stop.signal);
  ended.catch(() => undefined); // a test that recovers nothing
  await using listening = locked.server;
  const port = await listening.listen('127.0.0.1', 0);
  const policy = parsePolicy({
    name: 'test',
    profile: 'identity',
    machines: 'any-proved',
    tpm: { requiredPcrs: [0], attestationKeys: 'enrolling', eventLog: 'optional' },
  });
  using channel = new RpcChannel<AttestedPeer>({
    endpoint: `127.0.0.1:${port}`,
    upgrade: atlsClientUpgrade({
      trust: {
        trust: 'mutual',
        shows: [new OwnerKeyIssuer({ privKey: new Secret(owner.privateKey) })],
        accepts: createValidators(['tpm'], standardValidators({ ownerKeys: [] })),
        rules: () => ({
          policy: { ...policy, machines: 'any' },
          collateral: { tpm: { attestationKeys: new Map() } },
        }),
      },
      context: INIT_CONTEXT,
      keys: new RotatingKeys({ clock }),
      clock,
    }),
  });
  try {
    await use({ channel, tpm, tried, ended, isRecovered: () => recovered.peek().set });
  } finally {
    stop.abort(new Error('the test has ended'));
    await ended.catch(() => undefined);
    await rm(directory, { recursive: true });
  }
}

/** The key in the form in which an owner sends it. A test may pass the `session` of another connection. */
async function sealed(channel: RpcChannel<AttestedPeer>, key: Uint8Array, session?: Uint8Array) {
  const { enrolment } = await createClient(InitApi, channel).readEnrolment({}, { signal, timeoutMs: 30_000 });
  const endorsement = verifyEndorsement(decodeEnrolmentRequest(enrolment), {
    trust: {
      roots: new Set([new CertificateCache().parse(certificate(factory.rootPem)).fingerprint]),
      authorities: [certificate(factory.rootPem), certificate(factory.issuerPem)],
      pinnedKeys: new Set(),
    },
    cache: new CertificateCache(),
    nowMs: clock.nowMs(),
  });
  if (channel.peer === undefined) throw new Error('not connected');
  const { challenge, nonce, ciphertext } = encryptForTpm(
    new Secret(key),
    endorsement,
    session ?? channel.peer.session,
  );
  const bytes = (text: string): Uint8Array => new Uint8Array(Buffer.from(text, 'base64'));
  return { challenge: bytes(challenge), nonce: bytes(nonce), ciphertext: bytes(ciphertext) };
}

function certificate(pem: string): Uint8Array {
  const [der] = parsePem(pem, { label: 'CERTIFICATE', maxBlocks: 4 });
  if (der === undefined) throw new Error('no certificate');
  return der;
}

const call = { signal, timeoutMs: 30_000 };

describe('a machine with a locked state disk', () => {
  test('tells an owner what has changed, and refuses everything else', async () => {
    await withMachine(async ({ channel }) => {
      const described = await createClient(LockedDiskApi, channel).describe({}, call);
      expect(described).toMatchObject({ device: '/dev/sdb', uuid: 'uuid', code: 'disk-locked', registers });
      const init = createClient(InitApi, channel);
      expect((await init.describe({ clientVersion: '' }, call)).enrolmentState).toBe('DiskLocked');
      await expect(init.statBlobs({ sha256: [] }, call)).rejects.toMatchObject({ code: 'disk-locked' });
      await expect(init.acknowledge({}, call)).rejects.toMatchObject({ code: 'disk-locked' });
    });
  });

  test('tells an owner the newest reason of a machine that waits for its cluster share', async () => {
    let newest = new DiskError('disk-share-awaited', 'asking the control planes');
    await withMachine(
      async ({ channel }) => {
        const client = createClient(LockedDiskApi, channel);
        expect(await client.describe({}, call)).toMatchObject({ code: 'disk-share-awaited' });
        newest = new DiskError('disk-share-refused', 'asking 192.0.2.1:9090', {
          cause: new Error('removed'),
        });
        expect(await client.describe({}, call)).toMatchObject({
          ...{ code: 'disk-share-refused', message: 'asking 192.0.2.1:9090: removed' },
        });
        const init = createClient(InitApi, channel);
        await expect(init.statBlobs({ sha256: [] }, call)).rejects.toMatchObject({
          code: 'disk-share-refused',
        });
      },
      { reasonNow: () => newest },
    );
  });

  test('opens the disk only once when the recovery key of an owner arrives twice', async () => {
    await withMachine(async ({ channel, tried, isRecovered }) => {
      const client = createClient(LockedDiskApi, channel);
      await expect(client.recover(await sealed(channel, KEY.with(0, 1)), call)).rejects.toMatchObject({
        code: 'disk-recovery-refused',
      });
      expect(isRecovered()).toBe(false);
      const request = await sealed(channel, KEY);
      await Promise.all([client.recover(request, call), client.recover(request, call)]);
      expect([tried, isRecovered()]).toEqual([[1, KEY[0]], true]);
    });
  });

  test.each<[string, (channel: RpcChannel<AttestedPeer>) => Promise<object>]>([
    ['of another session', (channel) => sealed(channel, KEY, new Uint8Array(64))],
    ['of another length', (channel) => sealed(channel, KEY.subarray(1))],
    [
      'that was altered',
      async (channel) => {
        const request = await sealed(channel, KEY);
        return { ...request, ciphertext: request.ciphertext.with(0, (request.ciphertext[0] ?? 0) ^ 1) };
      },
    ],
    [
      'that is too long',
      async (channel) => ({ ...(await sealed(channel, KEY)), nonce: new Uint8Array(5000) }),
    ],
    ['that is empty', () => Promise.resolve({})],
  ])('does not try a key %s', async (_, requestOf) => {
    await withMachine(async ({ channel, tried }) => {
      const client = createClient(LockedDiskApi, channel);
      await createClient(InitApi, channel).describe({ clientVersion: '' }, call);
      await expect(client.recover(await requestOf(channel), call)).rejects.toMatchObject({
        code: 'machineservice-recovery-key-unreadable',
      });
      expect(tried).toEqual([]);
    });
  });

  test('opens once enough owners have given their shares, at the console or over the network', async () => {
    const { secrets, recovery } = await splitAmong(3);
    const [first, second, third] = secrets.map((each) => each.reveal()) as [
      Uint8Array,
      Uint8Array,
      Uint8Array,
    ];
    const { consoleEntry, pipe, code } = await createConsole(new Secret(second));
    await withMachine(
      async ({ channel, tried, isRecovered, ended }) => {
        const client = createClient(LockedDiskApi, channel);
        const send = async (share: Uint8Array): Promise<number> =>
          (await client.recover(await sealed(channel, share), call)).missing;
        expect(await client.describe({}, call)).toMatchObject({
          ...{ recovery: new Uint8Array(), threshold: 2, given: 0 },
          shares: recovery.shares.map((each) => each.sealed),
        });
        expect(await send(third)).toBe(1);
        expect(await send(third)).toBe(1);
        for (const wrong of [third.with(0, (third[0] ?? 0) ^ 1), KEY])
          await expect(send(wrong)).rejects.toMatchObject({ code: 'machineservice-share-refused' });
        expect(await client.describe({}, call)).toMatchObject({ given: 1 });
        expect([tried, isRecovered()]).toEqual([[], false]);
        await appendFile(pipe, `${code}\n`);
        await ended;
        expect([tried, isRecovered()]).toEqual([[KEY[0]], true]);
        expect(await send(first)).toBe(0);
        expect(tried).toEqual([KEY[0]]);
      },
      { recovery, consoleEntry },
    );
  });

  test('opens once when the last two owners send their shares at the same time', async () => {
    const { secrets, recovery } = await splitAmong(3);
    await withMachine(
      async ({ channel, tried }) => {
        const client = createClient(LockedDiskApi, channel);
        const requests = [];
        for (const share of secrets) requests.push(await sealed(channel, share.reveal()));
        const answers = await Promise.all(requests.map((request) => client.recover(request, call)));
        expect(answers.map(({ missing }) => missing)).toEqual([1, 0, 0]);
        expect(tried).toEqual([KEY[0]]);
      },
      { recovery },
    );
  });

  test('needs all shares again if they do not open the disk', async () => {
    const { secrets, recovery } = await splitAmong(2, KEY.with(0, 1));
    await withMachine(
      async ({ channel, tried }) => {
        const client = createClient(LockedDiskApi, channel);
        const [first, second] = secrets.map((each) => each.reveal()) as [Uint8Array, Uint8Array];
        await client.recover(await sealed(channel, first), call);
        await expect(client.recover(await sealed(channel, second), call)).rejects.toMatchObject({
          code: 'disk-recovery-refused',
        });
        expect((await client.recover(await sealed(channel, second), call)).missing).toBe(1);
        expect(tried).toEqual([1]);
      },
      { recovery },
    );
  });

  test('opens with the code of an owner in the named pipe; then nothing reads the pipe', async () => {
    const { consoleEntry, pipe, code } = await createConsole();
    await withMachine(
      async ({ tried, isRecovered, ended }) => {
        await appendFile(pipe, `${code}\n`);
        await ended;
        expect([tried, isRecovered()]).toEqual([[KEY[0]], true]);
      },
      { consoleEntry },
    );
  });

  test('reads no code any more when an owner has recovered the disk over the network', async () => {
    const { consoleEntry } = await createConsole();
    await withMachine(
      async ({ channel, tried, ended }) => {
        await createClient(LockedDiskApi, channel).recover(await sealed(channel, KEY), call);
        await ended;
        expect(tried).toEqual([KEY[0]]);
      },
      { consoleEntry },
    );
  });
});

/** A recovery key that two of the owners have together. */
async function splitAmong(owners: number, key = KEY) {
  const secrets = await splitRecoveryKey(new Secret(key), { owners, threshold: 2 });
  const shares = secrets.map((share, at) => ({
    sealed: new Uint8Array(3 + at),
    digest: digestOfShare(share),
  }));
  return { secrets, recovery: { kind: 'shares', threshold: 2, shares } as const };
}

/** A way in at the console at which the code of an owner gives `given`, and this code. */
async function createConsole(given: Secret<Uint8Array> = new Secret(KEY)) {
  const commands = new ExecaRunner({ path: '/usr/sbin:/usr/bin:/sbin:/bin' });
  const [secret, uuid] = [new Secret(new Uint8Array(32).fill(5)), 'e69a2e66-2bc8-4695-b852-75f129bb9e54'];
  const recipients = [rawX25519(x25519PrivateKey(secret.reveal()))];
  const recovery = wrapForConsole(
    uuid,
    recipients.map((recipient) => ({ recipient, secret: given })),
  );
  const challenge = createConsoleChallenge({ uuid, recovery, recipients });
  const typed = decodeTyped('challenge', challenge.text);
  if (typed.kind === 'mistyped') throw new Error(typed.why);
  const pipe = join(directory, 'code');
  const kernel = { readAttribute: () => Promise.resolve(new Uint8Array()) };
  const sources = await findCodeSources({ files: new DiskFiles(), kernel, commands }, pipe, signal);
  const code = answerConsoleChallenge(typed.bytes, secret)?.reveal() ?? '';
  return { pipe, code, consoleEntry: { commands, sources, challenge, lines: [] } };
}
