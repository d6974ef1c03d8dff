import { createHash, randomBytes } from 'node:crypto';
import { copyFile, mkdtemp, open, rm, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { decryptAge, parseRecoveryKey, recoveryKeyOfOwner } from '../../internal/backup/index.ts';
import { generateEd25519Key } from '../../internal/crypto/index.ts';
import { ExecaRunner } from '../../internal/exec/index.ts';
import { DiskFiles, DiskStreams } from '../../internal/file/index.ts';
import { parseLuksHeader } from '../../internal/luks/index.ts';
import { Secret } from '../../internal/secret/index.ts';
import {
  approvalKeyOfOwner,
  diskStateOf,
  encodeReady,
  parseApprovalKey,
  recordKey,
  signApproval,
  SLOT_BYTES,
  slotKey,
  type DiskShares,
  type RecordContent,
  type ShareSource,
} from '../../internal/statedisk/index.ts';
import { createMemoryLogger, createSwtpmFactory, type SwtpmFactory } from '../../internal/testing/index.ts';
import { lastValueOfSeal, type Tpm } from '../../internal/tpm/index.ts';
import { Cryptsetup } from './cryptsetup.ts';
import { keyCounter } from './disk-counter.ts';
import { unsealShare } from './disk-seals.ts';
import { FakeKernel } from './fake-kernel.ts';
import {
  approveSoftware,
  giveShareToSigner,
  openStateDisk,
  readDiskSeal,
  recoverStateDisk,
  rotateDiskKeys,
  type AskShare,
  type DiskPorts,
  type DiskSettings,
  type RotationOrder,
} from './index.ts';
import { digestOfSeal } from './rotate-keys.ts';

const signal = new AbortController().signal;
/** A key pair of age-keygen(1). */
const OWNER = {
  recipient: 'age1eqsckkca230dt2w5h68h3gnqqrevhygq5fljj85z3m4cz9lmd46sxk3ed0',
  key: new Secret('AGE-SECRET-KEY-1AXVUFX45FPC6U2QPR63FR0F0ZVW20HXJXVLVRU78VQ3E23P2SKTSAVQ65R'),
};
const OTHER = recoveryKeyOfOwner(generateEd25519Key()).recipient;
const DISK_BYTES = 64 * 2 ** 20;
const REAL = {
  commands: new ExecaRunner({ path: '/usr/sbin:/usr/bin:/sbin:/bin' }),
  files: new DiskFiles(),
  streams: new DiskStreams(),
};
const SOURCE: ShareSource = {
  clusterId: 'c0'.repeat(16),
  clusterCaPem: '-----BEGIN CERTIFICATE-----',
  caGeneration: 1,
  floors: {},
  controlPlanes: [{ nodeId: 'node-1', host: '192.0.2.1' }],
  endpoints: [],
  proven: ['node-1:9090'],
};
const { log, records } = createMemoryLogger('disk');

let factory: SwtpmFactory;
let directory: string;
let kernel: FakeKernel;
let questions: string[];
beforeAll(async () => {
  factory = await createSwtpmFactory();
  directory = await mkdtemp('/dev/shm/cluster-rotate-');
}, 60_000);
afterAll(async () => {
  await factory[Symbol.asyncDispose]();
  await rm(directory, { recursive: true });
});
beforeEach(async () => {
  kernel = new FakeKernel(REAL);
  questions = [];
  records.length = 0;
  await writeFile(at('disk'), '');
  await truncate(at('disk'), 0);
  await truncate(at('disk'), DISK_BYTES);
  // All tests use one TPM, which remembers the disk of the previous test.
  await writeFile(at('permit'), '');
});

const at = (name: string): string => join(directory, name);

const settings = (changed: Partial<DiskSettings> = {}): DiskSettings => ({
  ...{ device: at('disk'), name: 'test-state', isAuthenticated: false, pcrs: [7, 11] },
  approvalKey: undefined,
  recipients: [OWNER.recipient],
  recoveryThreshold: 1,
  mountPoint: '/mounted/disk',
  directories: [{ name: 'cluster', path: '/on-disk/cluster', mode: 0o700 }],
  memory: at('memory'),
  permit: at('permit'),
  ...changed,
});

/** A machine with a TPM: each use of the TPM is an effect at which the power may be cut. */
async function withMachine<T>(use: (ports: DiskPorts) => Promise<T>): Promise<T> {
  await using swtpm = await factory.start();
  await using tpm = swtpm.open();
  const counting = Object.create(tpm, {
    use: { value: (...all: Parameters<Tpm['use']>) => kernel.counted('tpm', () => tpm.use(...all)) },
  }) as Tpm;
  const { commands, files, streams } = kernel;
  return await use({ commands, files, streams, tpm: counting, log });
}

/** The answer of a signer: another one for each disk. */
const shareOf = (uuid: string, secret = 'of the cluster'): Secret<Uint8Array> =>
  new Secret(new Uint8Array(createHash('sha256').update(`${secret} ${uuid}`).digest()));

const signerWith =
  (secret: string): AskShare =>
  async ({ uuid, test: tested }) => {
    questions.push(uuid);
    const share = shareOf(uuid, secret);
    await tested(share, signal);
    return { share, nodeId: 'node-1', endpoint: 'node-1:9090' };
  };
const askShare = signerWith('of the cluster');

async function currentState() {
  await using handle = await open(at('disk'));
  const { buffer } = await handle.read(Buffer.alloc(2 ** 24), 0, 2 ** 24, 0);
  const state = diskStateOf(buffer);
  if (state.kind !== 'ready') throw new Error(state.kind);
  return state;
}
const currentRecord = async (): Promise<RecordContent> => (await currentState()).record.content;

/** An order for the present keys of the disk. */
async function orderNow(changed: Partial<RotationOrder> = {}): Promise<RotationOrder> {
  const { uuid, nodeShare } = await currentRecord();
  const digest = new Uint8Array(randomBytes(32));
  const recipients = [OWNER.recipient];
  return { digest, uuid, seal: digestOfSeal(nodeShare), recipients, threshold: 1, ...changed };
}

const rotate = async (ports: DiskPorts, order?: RotationOrder, of = settings(), ask = askShare) =>
  rotateDiskKeys(ports, of, { order: order ?? (await orderNow()), askShare: ask, signal });

const give = (ports: DiskPorts) => giveShareToSigner(ports, settings(), { source: SOURCE, askShare, signal });

const codeOf = (work: Promise<unknown>): Promise<unknown> =>
  work.then(
    () => 'done',
    (error: unknown) => (error as { readonly code?: string }).code,
  );

/** Whether the disk has the same bytes as its copy. */
const isUntouched = async (): Promise<boolean> =>
  (await REAL.commands.run({ argv: ['cmp', at('disk'), at('copy')], signal }).catch(() => undefined)) !==
  undefined;

async function recoveryKeyOf({ recovery }: RecordContent): Promise<Secret<Uint8Array>> {
  async function* bytes(): AsyncGenerator<Uint8Array> {
    if (recovery.kind !== 'key') throw new Error('several owners');
    yield await Promise.resolve(recovery.sealed);
  }
  const parts = await Array.fromAsync(decryptAge(bytes(), [parseRecoveryKey(OWNER.key)]));
  return new Secret(new Uint8Array(Buffer.concat(parts)));
}

/** The slots of a header that a key opens. */
async function slotsOf(header: Uint8Array, key: Secret<Uint8Array>): Promise<readonly number[]> {
  const cryptsetup = new Cryptsetup(REAL, settings(), at('disk'), signal);
  await cryptsetup.putHeader(header);
  const opened: number[] = [];
  for (const slot of [0, 1]) if ((await codeOf(cryptsetup.check(slot, key))) === 'done') opened.push(slot);
  await cryptsetup.clear();
  return opened;
}

async function sharesOf(ports: DiskPorts, content: RecordContent): Promise<DiskShares> {
  const unseal = (which: keyof DiskShares) => unsealShare(ports, settings(), { which, content }, signal);
  return { node: await unseal('node'), cluster: await unseal('cluster') };
}

const counterNow = (ports: DiskPorts): Promise<bigint | undefined> =>
  ports.tpm.use(signal, (connection) => keyCounter.read(connection, signal));

describe('rotateDiskKeys()', () => {
  test('gives an open disk new shares and a new recovery key, and leaves it mapped and mounted', async () => {
    await withMachine(async (ports) => {
      await openStateDisk(ports, settings(), signal);
      const before = await currentRecord();
      const earlier = { shares: await sharesOf(ports, before), recovery: await recoveryKeyOf(before) };
      const mounted = [...kernel.mountPoints];
      kernel.restart();
      expect(await rotate(ports)).toEqual({
        ...{ clusterShare: 'new', endedApprovals: 0, isRepeated: false, wasInterrupted: false },
      });
      expect(kernel.effects.filter((each) => /mount|close|^cryptsetup open$/.exec(each) !== null)).toEqual(
        kernel.effects.filter((each) => each === 'cryptsetup open'), // which tests keys only
      );
      expect([kernel.mountPoints, await openStateDisk(ports, settings(), signal)]).toEqual([mounted, 'open']);
      const after = await currentRecord();
      const { uuid, header } = after;
      expect(parseLuksHeader(header)).toMatchObject({ uuid: before.uuid, slots: [0, 1] });
      const shares = await sharesOf(ports, after);
      for (const which of ['node', 'cluster'] as const)
        expect(shares[which].reveal()).not.toEqual(earlier.shares[which].reveal());
      expect({
        shares: await slotsOf(header, slotKey(shares, uuid)),
        recovery: await slotsOf(header, await recoveryKeyOf(after)),
        sharesBefore: await slotsOf(header, slotKey(earlier.shares, uuid)),
        recoveryBefore: await slotsOf(header, earlier.recovery),
        mixed: await slotsOf(header, slotKey({ ...shares, cluster: earlier.shares.cluster }, uuid)),
      }).toEqual({ shares: [0], recovery: [1], sharesBefore: [], recoveryBefore: [], mixed: [] });
      expect(await REAL.files.stat(at('memory'))).toBeUndefined();
      kernel.reboot();
      expect(await openStateDisk(ports, settings(), signal)).toBe('opened');
      kernel.reboot();
      const recover = (recoveryKey: Secret<Uint8Array>) =>
        codeOf(recoverStateDisk(ports, settings(), { recoveryKey, signal }));
      expect(await recover(earlier.recovery)).toBe('disk-recovery-refused');
      expect(await recover(await recoveryKeyOf(after))).toBe('done');
    });
  }, 120_000);

  test('has the TPM unseal none of the earlier shares, also from an earlier copy of the disk', async () => {
    await withMachine(async (ports) => {
      await openStateDisk(ports, settings(), signal);
      const before = await currentRecord();
      const counter = (await counterNow(ports)) ?? 0n;
      await copyFile(at('disk'), at('copy'));
      await rotate(ports);
      expect(await counterNow(ports)).toBe(counter + 1n);
      for (const which of ['node', 'cluster'] as const)
        await expect(
          unsealShare(ports, settings(), { which, content: before }, signal),
        ).rejects.toMatchObject({
          ...{ code: 'disk-locked', cause: { code: 'tpm-policy-failed' } },
        });
      await copyFile(at('copy'), at('disk'));
      kernel.reboot();
      expect(await codeOf(openStateDisk(ports, settings(), signal))).toBe('statedisk-rolled-back');
      // What the documents say too: the copy has the earlier slot of the owners, and the earlier recovery key opens that.
      expect(await slotsOf(before.header, await recoveryKeyOf(before))).toEqual([1]);
    });
  }, 120_000);

  test('gives a worker a new node share, and keeps the share that a signer derives', async () => {
    await withMachine(async (ports) => {
      await openStateDisk(ports, settings(), signal);
      const formatted = await currentRecord();
      await give(ports);
      const given = await currentRecord();
      const { uuid, clusterShare } = given;
      const nodeBefore = await unsealShare(ports, settings(), { which: 'node', content: given }, signal);
      questions.length = 0;
      expect(await rotate(ports)).toMatchObject({ clusterShare: 'kept', isRepeated: false });
      const after = await currentRecord();
      expect([after.clusterShare, questions]).toEqual([clusterShare, [uuid]]);
      const node = await unsealShare(ports, settings(), { which: 'node', content: after }, signal);
      const slotsWith = (share: Secret<Uint8Array>) =>
        slotsOf(after.header, slotKey({ node: share, cluster: shareOf(uuid) }, uuid));
      expect([await slotsWith(node), await slotsWith(nodeBefore)]).toEqual([[0], []]);
      // The seals from before the share was given away, which nothing had ended.
      const sealedBefore = unsealShare(ports, settings(), { which: 'cluster', content: formatted }, signal);
      await expect(sealedBefore).rejects.toMatchObject({ code: 'disk-locked' });
      kernel.reboot();
      expect(await openStateDisk(ports, settings(), signal, askShare)).toBe('opened');
    });
  }, 120_000);

  test('changes nothing while no signer gives the right share', async () => {
    await withMachine(async (ports) => {
      await openStateDisk(ports, settings(), signal);
      await give(ports);
      await copyFile(at('disk'), at('copy'));
      const wrong = rotate(ports, undefined, settings(), signerWith('of another cluster'));
      expect(await codeOf(wrong)).toBe('disk-share-wrong');
      const nobody = (): Promise<never> => Promise.reject(new Error('nobody'));
      await expect(rotate(ports, undefined, settings(), nobody)).rejects.toThrow('nobody');
      expect(await isUntouched()).toBe(true);
    });
  });

  test.each<[string, Partial<RotationOrder>, Partial<DiskSettings>]>([
    ['for another disk', { uuid: 'e69a2e66-2bc8-4695-b852-75f129bb9e54' }, {}],
    ['for earlier keys', { seal: new Uint8Array(32) }, {}],
    ['for other recipients than the provisioning file', { recipients: [OTHER] }, {}],
    ['for recipients of whom the provisioning file names more', {}, { recipients: [OWNER.recipient, OTHER] }],
    ['for another threshold', { threshold: 2 }, {}],
  ])('refuses an order %s before it reads a share from the TPM', async (_, changed, provisioned) => {
    await withMachine(async (ports) => {
      await openStateDisk(ports, settings(), signal);
      await copyFile(at('disk'), at('copy'));
      kernel.restart();
      const refused = rotate(ports, await orderNow(changed), settings(provisioned));
      expect(await codeOf(refused)).toBe('disk-rotation-refused');
      expect([await isUntouched(), kernel.effects]).toEqual([true, ['tpm']]); // reads the counter
    });
  });

  test('carries out an order once, however often it is sent', async () => {
    await withMachine(async (ports) => {
      await openStateDisk(ports, settings(), signal);
      const order = await orderNow();
      await rotate(ports, order);
      await copyFile(at('disk'), at('copy'));
      expect(await rotate(ports, order)).toEqual({
        ...{ clusterShare: 'new', endedApprovals: 0, isRepeated: true, wasInterrupted: false },
      });
      expect(await isUntouched()).toBe(true);
      await rotate(ports);
      expect(await codeOf(rotate(ports, order))).toBe('disk-rotation-refused');
    });
  }, 120_000);

  test('changes nothing on a disk whose record was changed while it is open', async () => {
    await withMachine(async (ports) => {
      await openStateDisk(ports, settings(), signal);
      const { slot, record } = await currentState();
      const key = recordKey(new Secret(new Uint8Array(32)), record.content.uuid);
      await REAL.streams.writeAt(
        at('disk'),
        slot * SLOT_BYTES,
        encodeReady(record.sequence, record.content, key),
      );
      await copyFile(at('disk'), at('copy'));
      expect(await codeOf(rotate(ports))).toBe('statedisk-changed');
      expect(await isUntouched()).toBe(true);
    });
  });

  test('writes no record with a seal that the TPM does not open, of either share', async () => {
    await withMachine(async (ports) => {
      await openStateDisk(ports, settings(), signal);
      await copyFile(at('disk'), at('copy'));
      for (const which of ['nodeShare', 'clusterShare'] as const) {
        const other = which === 'nodeShare' ? 'clusterShare' : 'nodeShare';
        const use = async (...all: Parameters<Tpm['use']>): Promise<unknown> => {
          const result = await ports.tpm.use(...all);
          const seals = result as Partial<Record<typeof which, Uint8Array>> | undefined;
          return seals?.[which] === undefined ? result : { ...seals, [which]: seals[other] };
        };
        const tpm = Object.create(ports.tpm, { use: { value: use } }) as Tpm;
        expect(await codeOf(rotate({ ...ports, tpm }))).toBe('disk-locked');
        expect(await isUntouched()).toBe(true);
      }
      kernel.reboot();
      expect(await openStateDisk(ports, settings(), signal)).toBe('opened');
    });
  }, 120_000);

  test('gives each of several owners a new share of a new recovery key, and another challenge at the console', async () => {
    const several = settings({ recipients: [OWNER.recipient, OTHER], recoveryThreshold: 2 });
    await withMachine(async (ports) => {
      await openStateDisk(ports, several, signal);
      const before = await currentRecord();
      const order = await orderNow({ recipients: [OTHER, OWNER.recipient], threshold: 2 });
      await rotate(ports, order, several);
      const after = await currentRecord();
      const digestsIn = ({ recovery }: RecordContent): readonly string[] =>
        recovery.kind === 'key'
          ? []
          : recovery.shares.map(({ digest }) => Buffer.from(digest).toString('hex'));
      expect([after.recovery.kind, new Set([...digestsIn(before), ...digestsIn(after)]).size]).toEqual([
        'shares',
        4,
      ]);
      expect(after.consoleRecovery?.diskKey).not.toEqual(before.consoleRecovery?.diskKey);
      expect(after.recipientsMac).not.toEqual(before.recipientsMac);
    });
  });
});

describe('approvals of a disk', () => {
  const key = approvalKeyOfOwner(generateEd25519Key());
  const approvable = (by = key): DiskSettings => settings({ approvalKey: parseApprovalKey(by.publicKey) });
  /** An approval of what runs now, for the seals that the disk has now. */
  const approvalNow = async (ports: DiskPorts): Promise<Uint8Array> => {
    const { uuid, seals, generation, registers } = await readDiskSeal(ports, approvable(), signal);
    if (seals === undefined) throw new Error('not sealed for approvals');
    const software = [registers] as const;
    return signApproval({ uuid, seals, generation: generation + 1n, software }, key.privateKey);
  };
  /** Whether a share of an earlier record opens with an approval for it that is made now. */
  const opensEarlier = async (
    ports: DiskPorts,
    content: RecordContent,
    names: Uint8Array,
  ): Promise<unknown> => {
    const earlier = { ...content, approval: names };
    return codeOf(unsealShare(ports, approvable(), { which: 'node', content: earlier }, signal));
  };

  test('end with a rotation, which says how many, and none that is made later opens the earlier shares', async () => {
    await withMachine(async (ports) => {
      await openStateDisk(ports, approvable(), signal);
      await approveSoftware(ports, approvable(), { approval: await approvalNow(ports), signal });
      const before = await currentRecord();
      const { seals, uuid } = await readDiskSeal(ports, approvable(), signal);
      expect(await rotate(ports, undefined, approvable())).toMatchObject({ endedApprovals: 1 });
      const { approved, opens, generation, registers } = await readDiskSeal(ports, approvable(), signal);
      expect([approved, opens]).toEqual([[], true]);
      if (seals === undefined) throw new Error('not sealed for approvals');
      const later = { uuid, seals, generation: generation + 1n, software: [registers] } as const;
      expect(await opensEarlier(ports, before, signApproval(later, key.privateKey))).toBe('disk-locked');
      kernel.reboot();
      expect(await openStateDisk(ports, approvable(), signal)).toBe('opened');
      await approveSoftware(ports, approvable(), { approval: await approvalNow(ports), signal });
      kernel.reboot();
      expect(await openStateDisk(ports, approvable(), signal)).toBe('opened');
    });
  }, 120_000);

  test.each([
    ['was removed', settings],
    ['was replaced', () => approvable(approvalKeyOfOwner(generateEd25519Key()))],
  ] as const)(
    'of a key that %s open no share of before: the next start makes new ones',
    async (_, next) => {
      await withMachine(async (ports) => {
        await openStateDisk(ports, approvable(), signal);
        const before = await currentRecord();
        const { seals, uuid, registers } = await readDiskSeal(ports, approvable(), signal);
        const shares = await sharesOf(ports, before);
        const replaced = next();
        kernel.reboot();
        expect(await openStateDisk(ports, replaced, signal)).toBe('opened');
        const after = await currentRecord();
        expect(after.recovery).toEqual(before.recovery);
        expect(await slotsOf(after.header, slotKey(shares, uuid))).toEqual([]);
        if (seals === undefined) throw new Error('not sealed for approvals');
        for (const generation of [1n, 2n, 1n << 40n]) {
          const later = { uuid, seals, generation, software: [registers] } as const;
          expect(await opensEarlier(ports, before, signApproval(later, key.privateKey))).toBe('disk-locked');
        }
        kernel.reboot();
        expect(await openStateDisk(ports, replaced, signal)).toBe('opened');
      });
    },
    120_000,
  );
});

describe('a power cut at any step', () => {
  /** What is true after each cut, once the machine runs again: one pair of keys opens the disk, and nothing of another is left. */
  async function expectWhole(
    ports: DiskPorts,
    before: RecordContent,
    recoveryBefore: readonly number[] = [],
  ): Promise<void> {
    const { record, hasOther } = await currentState();
    const { content } = record;
    expect([hasOther, await counterNow(ports)]).toEqual([false, lastValueOfSeal(content.nodeShare)]);
    // Before `slotsOf()`, which deletes it.
    expect(await REAL.files.stat(at('memory'))).toBeUndefined();
    expect(await slotsOf(content.header, await recoveryKeyOf(content))).toEqual([1]);
    if (Buffer.compare(before.nodeShare, content.nodeShare) === 0) return;
    const earlier = unsealShare(ports, settings(), { which: 'node', content: before }, signal);
    expect(await codeOf(earlier)).toBe('disk-locked');
    expect(await slotsOf(content.header, await recoveryKeyOf(before))).toEqual(recoveryBefore);
  }

  test.each([
    { name: 'after a reboot', then: 'reboot', step: 1, isWorker: false },
    { name: 'after a restart of the agent alone', then: 'start', step: 2, isWorker: false },
    { name: 'with the same order again', then: 'order', step: 2, isWorker: false },
    { name: 'on a worker whose share is with the signers', then: 'reboot', step: 2, isWorker: true },
  ])(
    'of a rotation leaves a disk that opens at the next start, $name',
    async ({ then, step, isWorker }) => {
      await withMachine(async (ports) => {
        const start = () => openStateDisk(ports, settings(), signal, askShare);
        await start();
        if (isWorker) await give(ports);
        let [order, before] = [await orderNow(), await currentRecord()];
        const outcomes = new Set<string>();
        const effects = await kernel.cutEverywhere({
          prepare: async () => {
            kernel.restart();
            [order, before] = [await orderNow(), await currentRecord()];
          },
          work: () => rotate(ports, order),
          after: async () => {
            if (then === 'order') {
              const { isRepeated, wasInterrupted } = await rotate(ports, order);
              outcomes.add(`repeated: ${isRepeated}, interrupted: ${wasInterrupted}`);
            } else {
              outcomes.add(await start());
            }
            await expectWhole(ports, before);
            kernel.reboot();
            expect(await start()).toBe('opened');
            await expectWhole(ports, before);
          },
          reboots: then === 'reboot',
          step,
        });
        expect(effects).toBeGreaterThan(35);
        const wanted = {
          reboot: ['opened'],
          start: ['completed', 'open'],
          order: ['repeated: false, interrupted: false', 'repeated: true, interrupted: true'],
        };
        expect([...outcomes].sort()).toEqual(wanted[then as keyof typeof wanted]);
      });
    },
    1_200_000,
  );

  test('of the first start with another approval key leaves a disk that opens at the next start', async () => {
    const key = approvalKeyOfOwner(generateEd25519Key());
    const approvable = settings({ approvalKey: parseApprovalKey(key.publicKey) });
    await withMachine(async (ports) => {
      await openStateDisk(ports, settings(), signal);
      let [of, before] = [approvable, await currentRecord()];
      const effects = await kernel.cutEverywhere({
        prepare: async () => {
          // Forth and back, so that each start makes new shares.
          of = of === approvable ? settings() : approvable;
          kernel.reboot();
          await openStateDisk(ports, of === approvable ? settings() : approvable, signal);
          before = await currentRecord();
          kernel.reboot();
        },
        work: () => openStateDisk(ports, of, signal),
        after: async () => {
          expect(await openStateDisk(ports, of, signal)).toBe('opened');
          await expectWhole(ports, before, [1]);
        },
        reboots: true,
        step: 3,
      });
      expect(effects).toBeGreaterThan(25);
    });
  }, 1_200_000);
});
