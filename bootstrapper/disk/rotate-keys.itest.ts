import { createHash, randomBytes } from 'node:crypto';
import { copyFile } from 'node:fs/promises';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { decryptAge, parseRecoveryKey, recoveryKeyOfOwner } from '../../internal/backup/index.ts';
import { generateEd25519Key } from '../../internal/crypto/index.ts';
import { parseLuksHeader } from '../../internal/luks/index.ts';
import { Secret } from '../../internal/secret/index.ts';
import {
  approvalKeyOfOwner,
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
import { lastValueOfSeal, type Tpm } from '../../internal/tpm/index.ts';
import { Cryptsetup } from './cryptsetup.ts';
import { keyCounter } from './disk-counter.ts';
import { unsealShare } from './disk-seals.ts';
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
import { OWNER, REAL, FakeMachine } from './fake-machine.ts';

const signal = new AbortController().signal;
const OTHER = recoveryKeyOfOwner(generateEd25519Key()).recipient;
const SOURCE: ShareSource = {
  clusterId: 'c0'.repeat(16),
  clusterCaPem: '-----BEGIN CERTIFICATE-----',
  caGeneration: 1,
  floors: {},
  controlPlanes: [{ nodeId: 'node-1', host: '192.0.2.1' }],
  endpoints: [],
  proven: ['node-1:9090'],
};

let machine: FakeMachine;
let questions: string[];
beforeAll(async () => {
  machine = await FakeMachine.create();
}, 60_000);
afterAll(async () => {
  await machine[Symbol.asyncDispose]();
});
beforeEach(async () => {
  await machine.reset();
  questions = [];
});

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

/** An order for the present keys of the disk. */
async function orderNow(changed: Partial<RotationOrder> = {}): Promise<RotationOrder> {
  const { uuid, nodeShare } = await machine.record();
  const digest = new Uint8Array(randomBytes(32));
  const recipients = [OWNER.recipient];
  return { digest, uuid, seal: digestOfSeal(nodeShare), recipients, threshold: 1, ...changed };
}

const rotate = async (ports: DiskPorts, order?: RotationOrder, of = machine.settings(), ask = askShare) =>
  rotateDiskKeys(ports, of, { order: order ?? (await orderNow()), askShare: ask, signal });

const give = (ports: DiskPorts) =>
  giveShareToSigner(ports, machine.settings(), { source: SOURCE, askShare, signal });

const codeOf = (work: Promise<unknown>): Promise<unknown> =>
  work.then(
    () => 'done',
    (error: unknown) => (error as { readonly code?: string }).code,
  );

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
  const cryptsetup = new Cryptsetup(REAL, machine.settings(), machine.at('disk'), signal);
  await cryptsetup.putHeader(header);
  const opened: number[] = [];
  for (const slot of [0, 1]) if ((await codeOf(cryptsetup.check(slot, key))) === 'done') opened.push(slot);
  await cryptsetup.clear();
  return opened;
}

async function sharesOf(ports: DiskPorts, content: RecordContent): Promise<DiskShares> {
  const unseal = (which: keyof DiskShares) =>
    unsealShare(ports, machine.settings(), { which, content }, signal);
  return { node: await unseal('node'), cluster: await unseal('cluster') };
}

const counterNow = (ports: DiskPorts): Promise<bigint | undefined> =>
  ports.tpm.use(signal, (connection) => keyCounter.read(connection, signal));

describe('rotateDiskKeys()', () => {
  test('gives an open disk new shares and a new recovery key, and leaves it mapped and mounted', async () => {
    await machine.run(async (ports) => {
      await openStateDisk(ports, machine.settings(), signal);
      const before = await machine.record();
      const earlier = { shares: await sharesOf(ports, before), recovery: await recoveryKeyOf(before) };
      const mounted = [...machine.kernel.mountPoints];
      machine.kernel.restart();
      expect(await rotate(ports)).toEqual({
        ...{ clusterShare: 'new', endedApprovals: 0, isRepeated: false, wasInterrupted: false },
      });
      expect(
        machine.kernel.effects.filter((each) => /mount|close|^cryptsetup open$/.exec(each) !== null),
      ).toEqual(
        machine.kernel.effects.filter((each) => each === 'cryptsetup open'), // which tests keys only
      );
      expect([machine.kernel.mountPoints, await openStateDisk(ports, machine.settings(), signal)]).toEqual([
        mounted,
        'open',
      ]);
      const after = await machine.record();
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
      expect(await REAL.files.stat(machine.at('memory'))).toBeUndefined();
      machine.kernel.reboot();
      expect(await openStateDisk(ports, machine.settings(), signal)).toBe('opened');
      machine.kernel.reboot();
      const recover = (recoveryKey: Secret<Uint8Array>) =>
        codeOf(recoverStateDisk(ports, machine.settings(), { recoveryKey, signal }));
      expect(await recover(earlier.recovery)).toBe('disk-recovery-refused');
      expect(await recover(await recoveryKeyOf(after))).toBe('done');
    });
  }, 120_000);

  test('has the TPM unseal none of the earlier shares, also from an earlier copy of the disk', async () => {
    await machine.run(async (ports) => {
      await openStateDisk(ports, machine.settings(), signal);
      const before = await machine.record();
      const counter = (await counterNow(ports)) ?? 0n;
      await copyFile(machine.at('disk'), machine.at('copy'));
      await rotate(ports);
      expect(await counterNow(ports)).toBe(counter + 1n);
      for (const which of ['node', 'cluster'] as const)
        await expect(
          unsealShare(ports, machine.settings(), { which, content: before }, signal),
        ).rejects.toMatchObject({
          ...{ code: 'disk-locked', cause: { code: 'tpm-policy-failed' } },
        });
      await copyFile(machine.at('copy'), machine.at('disk'));
      machine.kernel.reboot();
      expect(await codeOf(openStateDisk(ports, machine.settings(), signal))).toBe('statedisk-rolled-back');
      // What the documents say too: the copy has the earlier slot of the owners, and the earlier recovery key opens that.
      expect(await slotsOf(before.header, await recoveryKeyOf(before))).toEqual([1]);
    });
  }, 120_000);

  test('gives a worker a new node share, and keeps the share that a signer derives', async () => {
    await machine.run(async (ports) => {
      await openStateDisk(ports, machine.settings(), signal);
      const formatted = await machine.record();
      await give(ports);
      const given = await machine.record();
      const { uuid, clusterShare } = given;
      const nodeBefore = await unsealShare(
        ports,
        machine.settings(),
        { which: 'node', content: given },
        signal,
      );
      questions.length = 0;
      expect(await rotate(ports)).toMatchObject({ clusterShare: 'kept', isRepeated: false });
      const after = await machine.record();
      expect([after.clusterShare, questions]).toEqual([clusterShare, [uuid]]);
      const node = await unsealShare(ports, machine.settings(), { which: 'node', content: after }, signal);
      const slotsWith = (share: Secret<Uint8Array>) =>
        slotsOf(after.header, slotKey({ node: share, cluster: shareOf(uuid) }, uuid));
      expect([await slotsWith(node), await slotsWith(nodeBefore)]).toEqual([[0], []]);
      // The seals from before the share was given away, which nothing had ended.
      const sealedBefore = unsealShare(
        ports,
        machine.settings(),
        { which: 'cluster', content: formatted },
        signal,
      );
      await expect(sealedBefore).rejects.toMatchObject({ code: 'disk-locked' });
      machine.kernel.reboot();
      expect(await openStateDisk(ports, machine.settings(), signal, askShare)).toBe('opened');
    });
  }, 120_000);

  test('changes nothing while no signer gives the right share', async () => {
    await machine.run(async (ports) => {
      await openStateDisk(ports, machine.settings(), signal);
      await give(ports);
      await copyFile(machine.at('disk'), machine.at('copy'));
      const wrong = rotate(ports, undefined, machine.settings(), signerWith('of another cluster'));
      expect(await codeOf(wrong)).toBe('disk-share-wrong');
      const nobody = (): Promise<never> => Promise.reject(new Error('nobody'));
      await expect(rotate(ports, undefined, machine.settings(), nobody)).rejects.toThrow('nobody');
      expect(await machine.isUntouched()).toBe(true);
    });
  });

  test.each<[string, Partial<RotationOrder>, Partial<DiskSettings>]>([
    ['for another disk', { uuid: 'e69a2e66-2bc8-4695-b852-75f129bb9e54' }, {}],
    ['for earlier keys', { seal: new Uint8Array(32) }, {}],
    ['for other recipients than the provisioning file', { recipients: [OTHER] }, {}],
    ['for recipients of whom the provisioning file names more', {}, { recipients: [OWNER.recipient, OTHER] }],
    ['for another threshold', { threshold: 2 }, {}],
  ])('refuses an order %s before it reads a share from the TPM', async (_, changed, provisioned) => {
    await machine.run(async (ports) => {
      await openStateDisk(ports, machine.settings(), signal);
      await copyFile(machine.at('disk'), machine.at('copy'));
      machine.kernel.restart();
      const refused = rotate(ports, await orderNow(changed), machine.settings(provisioned));
      expect(await codeOf(refused)).toBe('disk-rotation-refused');
      expect([await machine.isUntouched(), machine.kernel.effects]).toEqual([true, ['tpm']]); // reads the counter
    });
  });

  test('carries out an order once, however often it is sent', async () => {
    await machine.run(async (ports) => {
      await openStateDisk(ports, machine.settings(), signal);
      const order = await orderNow();
      await rotate(ports, order);
      await copyFile(machine.at('disk'), machine.at('copy'));
      expect(await rotate(ports, order)).toEqual({
        ...{ clusterShare: 'new', endedApprovals: 0, isRepeated: true, wasInterrupted: false },
      });
      expect(await machine.isUntouched()).toBe(true);
      await rotate(ports);
      expect(await codeOf(rotate(ports, order))).toBe('disk-rotation-refused');
    });
  }, 120_000);

  test('changes nothing on a disk whose record was changed while it is open', async () => {
    await machine.run(async (ports) => {
      await openStateDisk(ports, machine.settings(), signal);
      const { slot, record } = await machine.state();
      const key = recordKey(new Secret(new Uint8Array(32)), record.content.uuid);
      await REAL.streams.writeAt(
        machine.at('disk'),
        slot * SLOT_BYTES,
        encodeReady(record.sequence, record.content, key),
      );
      await copyFile(machine.at('disk'), machine.at('copy'));
      expect(await codeOf(rotate(ports))).toBe('statedisk-changed');
      expect(await machine.isUntouched()).toBe(true);
    });
  });

  test('writes no record with a seal that the TPM does not open, of either share', async () => {
    await machine.run(async (ports) => {
      await openStateDisk(ports, machine.settings(), signal);
      await copyFile(machine.at('disk'), machine.at('copy'));
      for (const which of ['nodeShare', 'clusterShare'] as const) {
        const other = which === 'nodeShare' ? 'clusterShare' : 'nodeShare';
        const use = async (...all: Parameters<Tpm['use']>): Promise<unknown> => {
          const result = await ports.tpm.use(...all);
          const seals = result as Partial<Record<typeof which, Uint8Array>> | undefined;
          return seals?.[which] === undefined ? result : { ...seals, [which]: seals[other] };
        };
        const tpm = Object.create(ports.tpm, { use: { value: use } }) as Tpm;
        expect(await codeOf(rotate({ ...ports, tpm }))).toBe('disk-locked');
        expect(await machine.isUntouched()).toBe(true);
      }
      machine.kernel.reboot();
      expect(await openStateDisk(ports, machine.settings(), signal)).toBe('opened');
    });
  }, 120_000);

  test('gives each of several owners a new share of a new recovery key, and another challenge at the console', async () => {
    const several = machine.settings({ recipients: [OWNER.recipient, OTHER], recoveryThreshold: 2 });
    await machine.run(async (ports) => {
      await openStateDisk(ports, several, signal);
      const before = await machine.record();
      const order = await orderNow({ recipients: [OTHER, OWNER.recipient], threshold: 2 });
      await rotate(ports, order, several);
      const after = await machine.record();
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
  const approvable = (by = key): DiskSettings =>
    machine.settings({ approvalKey: parseApprovalKey(by.publicKey) });
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
    await machine.run(async (ports) => {
      await openStateDisk(ports, approvable(), signal);
      await approveSoftware(ports, approvable(), { approval: await approvalNow(ports), signal });
      const before = await machine.record();
      const { seals, uuid } = await readDiskSeal(ports, approvable(), signal);
      expect(await rotate(ports, undefined, approvable())).toMatchObject({ endedApprovals: 1 });
      const { approved, opens, generation, registers } = await readDiskSeal(ports, approvable(), signal);
      expect([approved, opens]).toEqual([[], true]);
      if (seals === undefined) throw new Error('not sealed for approvals');
      const later = { uuid, seals, generation: generation + 1n, software: [registers] } as const;
      expect(await opensEarlier(ports, before, signApproval(later, key.privateKey))).toBe('disk-locked');
      machine.kernel.reboot();
      expect(await openStateDisk(ports, approvable(), signal)).toBe('opened');
      await approveSoftware(ports, approvable(), { approval: await approvalNow(ports), signal });
      machine.kernel.reboot();
      expect(await openStateDisk(ports, approvable(), signal)).toBe('opened');
    });
  }, 120_000);

  test.each([
    ['was removed', () => machine.settings()],
    ['was replaced', () => approvable(approvalKeyOfOwner(generateEd25519Key()))],
  ] as const)(
    'of a key that %s open no share of before: the next start makes new ones',
    async (_, next) => {
      await machine.run(async (ports) => {
        await openStateDisk(ports, approvable(), signal);
        const before = await machine.record();
        const { seals, uuid, registers } = await readDiskSeal(ports, approvable(), signal);
        const shares = await sharesOf(ports, before);
        const replaced = next();
        machine.kernel.reboot();
        expect(await openStateDisk(ports, replaced, signal)).toBe('opened');
        const after = await machine.record();
        expect(after.recovery).toEqual(before.recovery);
        expect(await slotsOf(after.header, slotKey(shares, uuid))).toEqual([]);
        if (seals === undefined) throw new Error('not sealed for approvals');
        for (const generation of [1n, 2n, 1n << 40n]) {
          const later = { uuid, seals, generation, software: [registers] } as const;
          expect(await opensEarlier(ports, before, signApproval(later, key.privateKey))).toBe('disk-locked');
        }
        machine.kernel.reboot();
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
    const { record, hasOther } = await machine.state();
    const { content } = record;
    expect([hasOther, await counterNow(ports)]).toEqual([false, lastValueOfSeal(content.nodeShare)]);
    // Before `slotsOf()`, which deletes it.
    expect(await REAL.files.stat(machine.at('memory'))).toBeUndefined();
    expect(await slotsOf(content.header, await recoveryKeyOf(content))).toEqual([1]);
    if (Buffer.compare(before.nodeShare, content.nodeShare) === 0) return;
    const earlier = unsealShare(ports, machine.settings(), { which: 'node', content: before }, signal);
    expect(await codeOf(earlier)).toBe('disk-locked');
    expect(await slotsOf(content.header, await recoveryKeyOf(before))).toEqual(recoveryBefore);
  }

  test.each([
    { name: 'after a reboot', then: 'reboot', isWorker: false },
    { name: 'after a restart of the agent alone', then: 'start', isWorker: false },
    { name: 'with the same order again', then: 'order', isWorker: false },
    { name: 'on a worker whose share is with the signers', then: 'reboot', isWorker: true },
  ])(
    'of a rotation leaves a disk that opens at the next start, $name',
    async ({ then, isWorker }) => {
      await machine.run(async (ports) => {
        const start = () => openStateDisk(ports, machine.settings(), signal, askShare);
        await start();
        if (isWorker) await give(ports);
        let [order, before] = [await orderNow(), await machine.record()];
        const outcomes = new Set<string>();
        const effects = await machine.kernel.cutRepeatedly({
          prepare: async () => {
            machine.kernel.restart();
            [order, before] = [await orderNow(), await machine.record()];
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
            machine.kernel.reboot();
            expect(await start()).toBe('opened');
            await expectWhole(ports, before);
          },
          reboots: then === 'reboot',
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
    const approvable = machine.settings({ approvalKey: parseApprovalKey(key.publicKey) });
    await machine.run(async (ports) => {
      await openStateDisk(ports, machine.settings(), signal);
      let [of, before] = [approvable, await machine.record()];
      const effects = await machine.kernel.cutRepeatedly({
        prepare: async () => {
          // Forth and back, so that each start makes new shares.
          of = of === approvable ? machine.settings() : approvable;
          machine.kernel.reboot();
          await openStateDisk(ports, of === approvable ? machine.settings() : approvable, signal);
          before = await machine.record();
          machine.kernel.reboot();
        },
        work: () => openStateDisk(ports, of, signal),
        after: async () => {
          expect(await openStateDisk(ports, of, signal)).toBe('opened');
          await expectWhole(ports, before, [1]);
        },
        reboots: true,
      });
      expect(effects).toBeGreaterThan(25);
    });
  }, 1_200_000);
});
