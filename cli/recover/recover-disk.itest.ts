import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { createHash, createPrivateKey, generateKeyPairSync } from 'node:crypto';
import { LockedDisk } from '../../initproto/gen/disk_pb.js';
import { InitApi } from '../../initproto/gen/init_pb.js';
import {
  atlsServerUpgrade,
  INIT_CONTEXT,
  REJECT_ALL_RULES,
  RotatingKeys,
  type AttestedPeer,
} from '../../internal/atls/index.ts';
import {
  answerChallenge,
  decodeChallenge,
  decryptWithTpm,
  encodeEnrolmentRequest,
  endorsementKeyIdOf,
  readEnrolmentRequest,
} from '../../internal/attestation/enrolment/index.ts';
import { proveKey } from '../../internal/attestation/machinekey/index.ts';
import { OwnerKeyValidator } from '../../internal/attestation/ownerkey/index.ts';
import { createTpmIssuer } from '../../internal/attestation/tpm/index.ts';
import { encryptAge, recoveryKeyOfOwner } from '../../internal/backup/index.ts';
import { SystemClock } from '../../internal/clock/index.ts';
import { implement, RpcServer, type Handlers } from '../../internal/rpc/index.ts';
import { Secret } from '../../internal/secret/index.ts';
import { createMemoryLogger, createSwtpmFactory, type SwtpmFactory } from '../../internal/testing/index.ts';
import { readPcrs } from '../../internal/tpm/index.ts';
import { contextOf, createCuratorHarness } from '../cluster/curator/fake-curator.ts';
import { RecordingHost } from '../host/fake-host.ts';
import { layoutOf, readOwnerKey } from '../workspace/index.ts';
import { runRecoverDisk, type RecoverDiskOptions } from './recover-disk.ts';

const clock = new SystemClock();
const signal = new AbortController().signal;
const PCRS = Array.from({ length: 16 }, (_, pcr) => pcr);
const KEY = new Uint8Array(32).fill(7);
const SHARE = new Uint8Array(33).fill(9);
/** A recipient whose private key no test has. */
const OTHER = 'age1eqsckkca230dt2w5h68h3gnqqrevhygq5fljj85z3m4cz9lmd46sxk3ed0';
const CONFIG = JSON.stringify({
  version: 1,
  name: 'prod',
  attestation: {
    ...{ firstContact: 'fingerprint', variants: ['tpm'] },
    policy: {
      ...{ name: 'ours', profile: 'identity', machines: 'any-proved' },
      tpm: { requiredPcrs: [4], eventLog: 'optional', loggedPcrs: [] },
    },
  },
});

let factory: SwtpmFactory;
let harness: Awaited<ReturnType<typeof createCuratorHarness>>;
beforeAll(async () => {
  factory = await createSwtpmFactory();
  harness = await createCuratorHarness({});
  await harness.files.writeAtomic('/owner/cluster.yaml', CONFIG);
});
afterAll(async () => {
  await factory[Symbol.asyncDispose]();
  await harness[Symbol.asyncDispose]();
});

/** How a test changes what the machine reports. */
interface Behaviour {
  readonly enrolmentState?: string;
  /** Recipient of the recovery key; default: the owner of the workspace. */
  readonly recipient?: string;
  /** Several owners must act: recipients of shares, each `SHARE` with its index as first byte. */
  readonly owners?: readonly string[];
  readonly threshold?: number;
  /** How many owners are missing after a share. */
  readonly missing?: number;
  /** A register of PCR 7 that is not the quoted one. */
  readonly now?: Uint8Array;
}

/** A machine with a real TPM whose state disk is locked, and an operator who recovers it. */
async function withLockedMachine(
  behaviour: Behaviour,
  use: (at: {
    readonly machine: string;
    /** Recovery keys that the machine received. */
    readonly received: Uint8Array[];
    readonly host: RecordingHost;
    readonly recover: (options?: Partial<RecoverDiskOptions>) => Promise<string>;
  }) => Promise<void>,
  host = new RecordingHost(),
): Promise<void> {
  await using chip = await factory.start();
  await using tpm = chip.open();
  const context = { ...contextOf(harness.files, '/owner'), host };
  const owner = await readOwnerKey(context, layoutOf('/owner'));
  const machineKey = new Secret(generateKeyPairSync('ed25519').privateKey);
  const received: Uint8Array[] = [];
  const answer: Parameters<typeof decryptWithTpm>[2] = (challenge, session) =>
    answerChallenge({ tpm }, challenge, session, signal);
  const quoted = await tpm.use(signal, (connection) =>
    readPcrs(connection, { hash: 'sha256', pcrs: [7] }, signal),
  );
  const own = recoveryKeyOfOwner(owner.keyPem).recipient;
  const { owners } = behaviour;
  const recovery =
    owners === undefined ? await encryptFor(behaviour.recipient ?? own, KEY) : new Uint8Array();
  const shares = (owners ?? []).map((recipient, at) => encryptFor(recipient || own, SHARE.with(0, at)));
  const base64 = (bytes: Uint8Array): string => Buffer.from(bytes).toString('base64');
  await using server = new RpcServer<AttestedPeer>({
    clock,
    upgrade: atlsServerUpgrade({
      trust: {
        trust: 'mutual',
        shows: [createTpmIssuer({ tpm, pcrs: PCRS })],
        accepts: [new OwnerKeyValidator({ ownerKeys: [rawKeyOf(owner.keyPem)] })],
        rules: () => REJECT_ALL_RULES,
      },
      context: INIT_CONTEXT,
      keys: new RotatingKeys({ clock }),
      clock,
    }),
    services: [
      initHandlers({
        describe: (_request, { peer }) =>
          Promise.resolve({
            enrolmentState: behaviour.enrolmentState ?? 'DiskLocked',
            key: proveKey('cluster/init/key/v1', peer.session, machineKey),
          }),
        readEnrolment: async () => ({
          enrolment: encodeEnrolmentRequest(await readEnrolmentRequest({ tpm }, signal)),
        }),
        answerChallenge: async ({ challenge }, { peer }) => ({
          answer: await answer(decodeChallenge(challenge), peer.session),
        }),
      }),
      implement(LockedDisk, {
        describe: async () => ({
          ...{ device: '/dev/sdb', uuid: 'uuid', code: 'disk-locked', message: 'changed: pcr7', recovery },
          ...{ shares: await Promise.all(shares), threshold: behaviour.threshold ?? 0, given: 1 },
          registers: [
            { pcr: 7, sealed: new Uint8Array(32).fill(1), now: behaviour.now ?? quoted.get(7) ?? KEY },
          ],
        }),
        recover: async ({ challenge, nonce, ciphertext }, { peer }) => {
          const envelope = {
            challenge: base64(challenge),
            nonce: base64(nonce),
            ciphertext: base64(ciphertext),
          };
          received.push((await decryptWithTpm(envelope, peer.session, answer)).reveal());
          return { missing: behaviour.missing ?? 0 };
        },
      }),
    ],
    disclose: 'chain',
    log: createMemoryLogger().log,
  });
  const address = `127.0.0.1:${await server.listen('127.0.0.1', 0)}`;
  const { endorsementKey } = await readEnrolmentRequest({ tpm }, signal);
  const machine = `tpm-ek:${endorsementKeyIdOf(endorsementKey)}`;
  const given = { address, machine, recoveryKey: undefined, yes: false, dryRun: false };
  await use({
    ...{ machine, received, host },
    recover: (options = {}) => runRecoverDisk(context, 'n2', { ...given, ...options }),
  });
}

async function encryptFor(recipient: string, secret: Uint8Array): Promise<Uint8Array> {
  async function* plain(): AsyncGenerator<Uint8Array> {
    yield await Promise.resolve(secret);
  }
  return Buffer.concat(await Array.fromAsync(encryptAge(plain(), [recipient])));
}

function initHandlers(handlers: Partial<Handlers<typeof InitApi, AttestedPeer>>) {
  return { service: InitApi, handlers };
}

function rawKeyOf(keyPem: Secret<string>): Uint8Array {
  const publicKey = createPrivateKey(keyPem.reveal()).export({ format: 'jwk' }).x ?? '';
  return new Uint8Array(Buffer.from(publicKey, 'base64url'));
}

describe('cluster recover disk', () => {
  test('sends the recovery key to the machine after showing what has changed', async () => {
    await withLockedMachine({}, async ({ recover, received, host }) => {
      await recover({ yes: true });
      expect(received).toEqual([KEY]);
      expect(host.answered).toMatchObject({
        ...{ node: 'n2', state: 'open' },
        registers: [{ pcr: 7, sealed: '01'.repeat(32), isChanged: true }],
      });
      expect(JSON.stringify(host.records)).not.toContain(Buffer.from(KEY).toString('hex'));
    });
  });

  test('sends the share of this owner if several must act, and says how many are missing', async () => {
    const several = { owners: [OTHER, ''], threshold: 2, missing: 1 };
    await withLockedMachine(several, async ({ recover, received, host }) => {
      expect(await recover({ yes: true })).toBe('partial');
      expect(received).toEqual([SHARE.with(0, 1)]);
      expect(host.answered).toMatchObject({
        ...{ node: 'n2', state: 'locked', missing: 1, owners: { needed: 2, of: 2, given: 1 } },
      });
      expect(JSON.stringify(host.records)).toContain(
        'The disk opens when 2 of its 2 owners have given their shares; the machine has 1 of them.',
      );
    });
    await withLockedMachine({ ...several, missing: 0 }, async ({ recover, host }) => {
      expect(await recover({ yes: true })).toBe('ok');
      expect(host.answered).toMatchObject({ state: 'open' });
    });
    await withLockedMachine({ owners: [OTHER, OTHER], threshold: 2 }, async ({ recover, received }) => {
      await expect(recover({ yes: true })).rejects.toMatchObject({ code: 'recover-disk-no-share' });
      expect(received).toEqual([]);
    });
  });

  test.each([
    ['more owners than there are', { owners: [''], threshold: 2 }],
    ['shares although one owner is enough', { owners: [''], threshold: 1 }],
  ])('sends nothing to a machine that asks for %s', async (_, behaviour) => {
    await withLockedMachine(behaviour, async ({ recover, received }) => {
      await expect(recover({ yes: true })).rejects.toMatchObject({ code: 'recover-disk-answer-invalid' });
      expect(received).toEqual([]);
    });
  });

  test('asks at a terminal; without a terminal, refuses unless the recovery is confirmed', async () => {
    const refused = { code: 'recover-disk-not-confirmed' };
    await withLockedMachine({}, async ({ recover, received }) => {
      await expect(recover()).rejects.toMatchObject(refused);
      expect(received).toEqual([]);
    });
    const declining = new RecordingHost({ answer: () => false });
    await withLockedMachine(
      {},
      async ({ recover, received }) => {
        await expect(recover()).rejects.toMatchObject(refused);
        expect(received).toEqual([]);
      },
      declining,
    );
    const agreeing = new RecordingHost({ answer: () => true });
    await withLockedMachine(
      {},
      async ({ recover, received }) => {
        await recover();
        expect(received).toEqual([KEY]);
      },
      agreeing,
    );
  });

  test('changes nothing with --dry-run, and on a machine whose disk is open', async () => {
    await withLockedMachine({}, async ({ recover, received, host }) => {
      await recover({ dryRun: true });
      expect([received, host.answered]).toEqual([[], expect.objectContaining({ dryRun: true })]);
    });
    await withLockedMachine({ enrolmentState: 'Running' }, async ({ recover, received, host }) => {
      await recover();
      expect([received, host.answered]).toEqual([[], { node: 'n2', state: 'open' }]);
    });
  });

  test('sends nothing to another machine, and nothing to one that lies about its registers', async () => {
    const other = `tpm-ek:${createHash('sha256').update('other').digest('hex')}`;
    await withLockedMachine({}, async ({ recover, received, machine }) => {
      await expect(recover({ yes: true, machine: other })).rejects.toMatchObject({
        code: 'cluster-other-machine',
        message: expect.stringContaining(`is ${machine}, expected ${other}`),
      });
      expect(received).toEqual([]);
    });
    await withLockedMachine({ now: new Uint8Array(32).fill(9) }, async ({ recover, received }) => {
      await expect(recover({ yes: true })).rejects.toMatchObject({ code: 'recover-disk-answer-invalid' });
      expect(received).toEqual([]);
    });
  });

  test('sends nothing if the recovery key of the owner does not decrypt the recovery data that the machine shows', async () => {
    await withLockedMachine({ recipient: OTHER }, async ({ recover, received }) => {
      await expect(recover({ yes: true })).rejects.toMatchObject({ code: 'backup-no-recovery-key' });
      expect(received).toEqual([]);
    });
  });

  test('needs a known machine and a known address', async () => {
    const unknown = { code: 'recover-disk-machine-unknown' };
    await withLockedMachine({}, async ({ recover }) => {
      await expect(recover({ machine: undefined })).rejects.toMatchObject(unknown);
      await expect(recover({ machine: 'machine-key:00' })).rejects.toMatchObject(unknown);
      await expect(recover({ address: undefined })).rejects.toMatchObject(unknown);
      await expect(recover({ address: 'a b' })).rejects.toMatchObject(unknown);
    });
  });
});
