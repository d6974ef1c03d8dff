import { createHash } from 'node:crypto';
import { copyFile } from 'node:fs/promises';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { decryptAge, parseRecoveryKey } from '../../internal/backup/index.ts';
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
import { extendPcr, type Tpm } from '../../internal/tpm/index.ts';
import { Cryptsetup } from './cryptsetup.ts';
import { unsealShare } from './disk-seals.ts';
import {
  approveSoftware,
  DiskError,
  giveShareToSigner,
  openStateDisk,
  probeMovedShare,
  readDiskSeal,
  readShareKeeper,
  recoverStateDisk,
  takeShareBack,
  type AskShare,
  type DiskPorts,
  type DiskSettings,
  type ProbeShare,
  type ShareQuestion,
} from './index.ts';
import { OWNER, REAL, FakeMachine } from './fake-machine.ts';

const signal = new AbortController().signal;
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
let questions: Pick<ShareQuestion, 'uuid' | 'source'>[];
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
function shareOf(uuid: string, secret = 'of the cluster'): Secret<Uint8Array> {
  return new Secret(new Uint8Array(createHash('sha256').update(`${secret} ${uuid}`).digest()));
}

/** Control planes with these secrets, which are asked one after the other as over the network. */
const signersWith =
  (secrets: Readonly<Record<string, string>>): AskShare =>
  async ({ uuid, source, test, among, except }) => {
    questions.push({ uuid, source });
    let last: unknown = new Error('nobody');
    for (const [nodeId, secret] of Object.entries(secrets)) {
      const isNamed = source.controlPlanes.some((each) => each.nodeId === nodeId);
      if (nodeId === except || (among === 'source' && !isNamed)) continue;
      const share = shareOf(uuid, secret);
      try {
        await test(share, signal);
        return { share, nodeId, endpoint: `${nodeId}:9090` };
      } catch (error) {
        last = error;
      }
    }
    throw last as Error;
  };
const askShare = signersWith({ 'node-1': 'of the cluster' });
const askWrong = signersWith({ 'node-1': 'of another cluster' });

const give = (ports: DiskPorts, of = machine.settings(), source = SOURCE) =>
  giveShareToSigner(ports, of, { source, askShare, signal });
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

describe('giveShareToSigner()', () => {
  test('leaves a disk that opens with the share of the signer only, and asks again at each start', async () => {
    await machine.run(async (ports) => {
      await openStateDisk(ports, machine.settings(), signal);
      const before = await machine.record();
      expect(await readShareKeeper(ports, machine.settings(), signal)).toEqual({ kind: 'machine' });
      expect(await give(ports)).toBe('given');
      const { uuid, clusterShare, header } = await machine.record();
      expect([uuid, clusterShare]).toEqual([before.uuid, SOURCE]);
      expect(parseLuksHeader(header)).toMatchObject({ uuid, slots: [0, 1] });
      expect(await readShareKeeper(ports, machine.settings(), signal)).toEqual({
        kind: 'signer',
        source: SOURCE,
      });
      machine.kernel.reboot();
      expect(await codeOf(openStateDisk(ports, machine.settings(), signal))).toBe('disk-share-awaited');
      machine.kernel.restart();
      expect(await codeOf(openStateDisk(ports, machine.settings(), signal, askWrong))).toBe(
        'disk-share-wrong',
      );
      expect(machine.kernel.effects).not.toContain('writeAt');
      expect(await REAL.files.stat(machine.at('memory'))).toBeUndefined();
      expect(await openStateDisk(ports, machine.settings(), signal, askShare)).toBe('opened');
      const asked = { uuid, source: SOURCE };
      expect(questions).toEqual([{ uuid, source: { ...SOURCE, proven: [] } }, asked, asked]);
      expect(await openStateDisk(ports, machine.settings(), signal)).toBe('open');
    });
  });

  test('leaves a disk whose share is not called wrong if cryptsetup fails in another way', async () => {
    await machine.run(async (ports) => {
      await openStateDisk(ports, machine.settings(), signal);
      await give(ports);
      machine.kernel.reboot();
      const commands: DiskPorts['commands'] = {
        run: (command) =>
          command.argv.includes('--test-passphrase')
            ? REAL.commands.run({ argv: ['sh', '-c', 'exit 3'], signal })
            : ports.commands.run(command),
      };
      const opening = openStateDisk({ ...ports, commands }, machine.settings(), signal, askShare);
      await expect(opening).rejects.toMatchObject({ code: 'exec-failed', exitCode: 3 });
      expect(await REAL.files.stat(machine.at('memory'))).toBeUndefined();
    });
  });

  test('needs both shares: the table of shares, and the share that the machine had before', async () => {
    await machine.run(async (ports) => {
      await openStateDisk(ports, machine.settings(), signal);
      const before = await machine.record();
      const own = await unsealShare(ports, machine.settings(), { which: 'cluster', content: before }, signal);
      await give(ports);
      const content = await machine.record();
      const node = await unsealShare(ports, machine.settings(), { which: 'node', content }, signal);
      const zero = new Secret<Uint8Array>(new Uint8Array(32));
      const cluster = shareOf(content.uuid);
      const cryptsetup = new Cryptsetup(REAL, machine.settings(), machine.at('disk'), signal);
      await cryptsetup.putHeader(content.header);
      const opens = (shares: DiskShares): Promise<boolean> =>
        cryptsetup.check(0, slotKey(shares, content.uuid)).then(
          () => true,
          () => false,
        );
      expect({
        both: await opens({ node, cluster }),
        none: await opens({ node: zero, cluster: zero }),
        node: await opens({ node, cluster: zero }),
        cluster: await opens({ node: zero, cluster }),
        before: await opens({ node, cluster: own }),
      }).toEqual({ both: true, none: false, node: false, cluster: false, before: false });
      await cryptsetup.check(1, await recoveryKeyOf(content));
      await cryptsetup.clear();
    });
  });

  test('does not ask for a disk whose record was changed, or that is an earlier copy', async () => {
    await machine.run(async (ports) => {
      await openStateDisk(ports, machine.settings(), signal);
      await give(ports);
      questions.length = 0;
      const { slot, record } = await machine.state();
      const two = [...SOURCE.controlPlanes, { nodeId: 'node-6', host: '198.51.100.6' }];
      const elsewhere = { ...SOURCE, controlPlanes: two };
      const forged = encodeReady(
        record.sequence,
        { ...record.content, clusterShare: elsewhere },
        recordKey(new Secret(new Uint8Array(32)), record.content.uuid),
      );
      await copyFile(machine.at('disk'), machine.at('copy'));
      await REAL.streams.writeAt(machine.at('disk'), slot * SLOT_BYTES, forged);
      machine.kernel.reboot();
      expect(await codeOf(openStateDisk(ports, machine.settings(), signal, askShare))).toBe(
        'statedisk-changed',
      );
      await copyFile(machine.at('copy'), machine.at('disk'));
      machine.kernel.reboot();
      await openStateDisk(ports, machine.settings(), signal, askShare);
      expect(await give(ports, machine.settings(), elsewhere)).toBe('updated');
      expect((await machine.record()).clusterShare).toEqual(elsewhere);
      machine.kernel.restart();
      expect(await give(ports, machine.settings(), elsewhere)).toBe('unchanged');
      expect(machine.kernel.effects).toEqual(['tpm']); // reads the counter
      questions.length = 0;
      await copyFile(machine.at('copy'), machine.at('disk'));
      machine.kernel.reboot();
      expect(await codeOf(openStateDisk(ports, machine.settings(), signal, askShare))).toBe(
        'statedisk-rolled-back',
      );
      expect(questions).toEqual([]);
    });
  });

  test('notes other endpoints once one of them has given the share, and keeps those that gave it before', async () => {
    const at6 = { ...SOURCE, controlPlanes: [{ nodeId: 'node-6', host: '198.51.100.6' }] };
    const update = (ports: DiskPorts, ask: AskShare) =>
      codeOf(giveShareToSigner(ports, machine.settings(), { source: at6, askShare: ask, signal }));
    await machine.run(async (ports) => {
      await openStateDisk(ports, machine.settings(), signal);
      await give(ports);
      await copyFile(machine.at('disk'), machine.at('copy'));
      await expect(update(ports, askShare)).resolves.toBeUndefined();
      expect(await update(ports, signersWith({ 'node-6': 'of another cluster' }))).toBe('disk-share-wrong');
      expect(await machine.isUntouched()).toBe(true);
      expect(await update(ports, signersWith({ 'node-6': 'of the cluster' }))).toBe('done');
      const { clusterShare } = await machine.record();
      expect(clusterShare).toEqual({ ...at6, proven: ['node-6:9090', 'node-1:9090'] });
    });
  });

  test('asks a second control plane, and changes nothing if its signer gives another share, or none', async () => {
    const two = {
      ...SOURCE,
      controlPlanes: [...SOURCE.controlPlanes, { nodeId: 'node-2', host: '192.0.2.2' }],
    };
    const giveTo = (secrets: Readonly<Record<string, string>>) => (ports: DiskPorts) =>
      codeOf(
        giveShareToSigner(ports, machine.settings(), { source: two, askShare: signersWith(secrets), signal }),
      );
    const wrong = { 'node-1': 'of another cluster' };
    await machine.run(async (ports) => {
      await openStateDisk(ports, machine.settings(), signal);
      await copyFile(machine.at('disk'), machine.at('copy'));
      expect(await giveTo({ ...wrong, 'node-2': 'of the cluster' })(ports)).toBe('disk-share-wrong');
      await expect(giveTo(wrong)(ports)).resolves.toBeUndefined();
      expect(await machine.isUntouched()).toBe(true);
      const right = {
        'node-1': 'of the cluster',
        'node-2': 'of another cluster',
        'node-3': 'of the cluster',
      };
      expect(await giveTo(right)(ports)).toBe('done');
      machine.kernel.reboot();
      expect(
        await openStateDisk(
          ports,
          machine.settings(),
          signal,
          signersWith({ ...wrong, 'node-3': 'of the cluster' }),
        ),
      ).toBe('opened');
    });
  });

  test('changes nothing while no signer answers, and reads no share from the TPM then', async () => {
    await machine.run(async (ports) => {
      await openStateDisk(ports, machine.settings(), signal);
      await copyFile(machine.at('disk'), machine.at('copy'));
      const options = { source: SOURCE, askShare: () => Promise.reject(new Error('nobody')), signal };
      machine.kernel.restart();
      await expect(giveShareToSigner(ports, machine.settings(), options)).rejects.toThrow('nobody');
      expect(await machine.isUntouched()).toBe(true);
      expect(machine.kernel.effects.filter((each) => each === 'tpm')).toHaveLength(1);
      machine.kernel.reboot();
      expect(await openStateDisk(ports, machine.settings(), signal)).toBe('opened');
    });
  });
});

describe('probeMovedShare()', () => {
  test('asks one control plane in the record, or any, reads nothing from the TPM and changes nothing', async () => {
    const asked: (readonly [string, string])[] = [];
    const probe: ProbeShare = ({ source, among }) => {
      const nodes = source.controlPlanes.map(({ nodeId }) => nodeId).join(' ');
      asked.push([among, `${nodes} ${source.proven.join(' ')}`.trim()]);
      return Promise.reject(new DiskError('disk-share-awaited', 'asking'));
    };
    const controlPlanes = ['node-1', 'node-2'].map((nodeId) => ({ nodeId, host: '192.0.2.1' }));
    const both = signersWith({ 'node-1': 'of the cluster', 'node-2': 'of the cluster' });
    await machine.run(async (ports) => {
      await openStateDisk(ports, machine.settings(), signal);
      const probed = (of: { readonly nodeId: string } | 'any', from = ports) =>
        codeOf(probeMovedShare(from, machine.settings(), { of, probe, signal }));
      expect([await probed('any'), asked]).toEqual(['done', []]);
      const source = { ...SOURCE, controlPlanes };
      await giveShareToSigner(ports, machine.settings(), { source, askShare: both, signal });
      await copyFile(machine.at('disk'), machine.at('copy'));
      const tpm = Object.create(ports.tpm, {
        use: { value: () => Promise.reject(new Error('the TPM was used')) },
      }) as Tpm;
      const without = { ...ports, tpm };
      expect(await probed('any', without)).toBe('disk-share-awaited');
      expect(await probed({ nodeId: 'node-2' }, without)).toBe('disk-share-awaited');
      expect(asked).toEqual([
        ['all', 'node-1 node-2 node-1:9090 node-2:9090'],
        ['source', 'node-2'],
      ]);
      expect(await machine.isUntouched()).toBe(true);
    });
  }, 120_000);
});

describe('takeShareBack()', () => {
  test('leaves a disk that opens by itself, with another share than that of the signer', async () => {
    await machine.run(async (ports) => {
      await openStateDisk(ports, machine.settings(), signal);
      expect(await takeShareBack(ports, machine.settings(), { askShare, signal })).toBe('unchanged');
      await give(ports);
      await copyFile(machine.at('disk'), machine.at('copy'));
      await expect(
        takeShareBack(ports, machine.settings(), { askShare: askWrong, signal }),
      ).rejects.toThrow();
      expect(await machine.isUntouched()).toBe(true);
      expect(await takeShareBack(ports, machine.settings(), { askShare, signal })).toBe('taken');
      const content = await machine.record();
      const cluster = await unsealShare(ports, machine.settings(), { which: 'cluster', content }, signal);
      expect(cluster.reveal()).not.toEqual(shareOf(content.uuid).reveal());
      questions.length = 0;
      machine.kernel.reboot();
      expect(await openStateDisk(ports, machine.settings(), signal, askShare)).toBe('opened');
      expect(questions).toEqual([]);
      expect(await give(ports)).toBe('given');
    });
  });

  test('writes no record with a seal that the TPM does not open, of either share', async () => {
    await machine.run(async (ports) => {
      await openStateDisk(ports, machine.settings(), signal);
      await give(ports);
      await copyFile(machine.at('disk'), machine.at('copy'));
      for (const which of ['nodeShare', 'clusterShare'] as const) {
        const taken = takeShareBack(withOtherSeal(ports, which), machine.settings(), { askShare, signal });
        await expect(taken).rejects.toMatchObject({ code: 'disk-locked' });
        expect(await machine.isUntouched()).toBe(true);
      }
    });
  });
});

/** A machine whose TPM seals one share wrongly: for the purpose of the other one. */
function withOtherSeal(ports: DiskPorts, which: 'nodeShare' | 'clusterShare'): DiskPorts {
  const other = which === 'nodeShare' ? 'clusterShare' : 'nodeShare';
  const use = async (...all: Parameters<Tpm['use']>): Promise<unknown> => {
    const result = await ports.tpm.use(...all);
    const seals = result as Partial<Record<typeof which, Uint8Array>> | undefined;
    return seals?.[which] === undefined ? result : { ...seals, [which]: seals[other] };
  };
  return { ...ports, tpm: Object.create(ports.tpm, { use: { value: use } }) as Tpm };
}

describe('an owner', () => {
  test('recovers a disk whose share is with the signers; the machine then keeps a share again, until it gives it away', async () => {
    await machine.run(async (ports) => {
      await openStateDisk(ports, machine.settings(), signal);
      await give(ports);
      machine.kernel.reboot();
      const recoveryKey = await recoveryKeyOf(await machine.record());
      await recoverStateDisk(ports, machine.settings(), { recoveryKey, signal });
      machine.kernel.reboot();
      expect(await openStateDisk(ports, machine.settings(), signal)).toBe('opened');
      expect(await give(ports)).toBe('given');
      machine.kernel.reboot();
      expect(await openStateDisk(ports, machine.settings(), signal, askShare)).toBe('opened');
    });
  });

  const key = approvalKeyOfOwner(generateEd25519Key());
  const approvable = (): DiskSettings => ({
    ...machine.settings(),
    approvalKey: parseApprovalKey(key.publicKey),
  });
  const update = new Uint8Array(32).fill(1);
  const extend = ({ tpm }: DiskPorts): Promise<void> =>
    tpm.use(signal, (connection) =>
      extendPcr(connection, { pcr: 11, hash: 'sha256', digest: update }, signal),
    );
  const approveUpdate = async (ports: DiskPorts): Promise<number> => {
    const { uuid, seals, generation, registers } = await readDiskSeal(ports, approvable(), signal);
    if (seals === undefined) throw new Error('not sealed for approvals');
    const before = registers.get(11) ?? new Uint8Array();
    const extended = new Uint8Array(createHash('sha256').update(before).update(update).digest());
    const software = [registers, new Map([...registers, [11, extended]])] as const;
    const content = { uuid, seals, generation: generation + 1n, software } as const;
    await approveSoftware(ports, approvable(), { approval: signApproval(content, key.privateKey), signal });
    return seals.length;
  };
  /** Restarts the machine, whose PCRs then are zero. `updates`: how often its new software extends PCR 11. */
  const started = async (updates: number): Promise<unknown> => {
    machine.kernel.reboot();
    return machine.run(async (ports) => {
      for (let count = 0; count < updates; count++) await extend(ports);
      return codeOf(openStateDisk(ports, approvable(), signal, askShare));
    });
  };

  test('approves registers for the node share alone', async () => {
    await machine.run(async (ports) => {
      await openStateDisk(ports, approvable(), signal);
      await give(ports, approvable());
      expect(await approveUpdate(ports)).toBe(1);
    });
    expect([await started(1), await started(0), await started(2)]).toEqual(['done', 'done', 'disk-locked']);
  });

  test('approves registers without a restart after the agent was killed while it gave the share away', async () => {
    await machine.run(async (ports) => {
      await openStateDisk(ports, approvable(), signal);
      await give(ports, approvable());
      await takeShareBack(ports, approvable(), { askShare, signal });
      machine.kernel.restart();
      await give(ports, approvable());
      const counted = machine.kernel.effects.lastIndexOf('tpm'); // the increment of the counter, after the record is durable
      await takeShareBack(ports, approvable(), { askShare, signal });
      machine.kernel.restart(counted);
      await expect(give(ports, approvable())).rejects.toThrow('tpm');
      machine.kernel.restart();
      await expect(approveUpdate(ports)).rejects.toMatchObject({ code: 'disk-approval-refused' });
      expect(await give(ports, approvable())).toBe('completed');
      expect(await give(ports, approvable())).toBe('unchanged');
      expect(await approveUpdate(ports)).toBe(1);
    });
  });

  test('has approved registers that still count after the share was given away, and no longer after it was taken back', async () => {
    await machine.run(async (ports) => {
      await openStateDisk(ports, approvable(), signal);
      expect(await approveUpdate(ports)).toBe(2);
      await give(ports, approvable());
    });
    expect([await started(1), await started(0)]).toEqual(['done', 'done']);
    await machine.run(async (ports) => {
      await takeShareBack(ports, approvable(), { askShare, signal });
      expect(await readDiskSeal(ports, approvable(), signal)).toMatchObject({ approved: [], opens: true });
    });
    expect([await started(1), await started(0)]).toEqual(['disk-locked', 'done']);
  });

  test('gets a disk of an earlier provisioning sealed for approvals, without a cluster share of the machine', async () => {
    await machine.run(async (ports) => {
      await openStateDisk(ports, machine.settings(), signal);
      await give(ports);
    });
    expect(await started(0)).toBe('done');
    expect((await machine.record()).clusterShare).toEqual(SOURCE);
    await machine.run(async (ports) =>
      expect((await readDiskSeal(ports, approvable(), signal)).seals).toHaveLength(1),
    );
    expect(await started(0)).toBe('done');
  });
});

describe('a power cut at any step', () => {
  test.each([
    { name: 'after a reboot', reboots: true },
    { name: 'after a restart of the agent alone', reboots: false },
  ])(
    'of giving the share away, or of taking it back, leaves a disk that opens at the next start, $name',
    async ({ reboots }) => {
      await machine.run(async (ports) => {
        const takeBack = () => takeShareBack(ports, machine.settings(), { askShare, signal });
        const opens = async (): Promise<void> => {
          machine.kernel.reboot();
          expect(await openStateDisk(ports, machine.settings(), signal, askShare)).toBe('opened');
        };
        await openStateDisk(ports, machine.settings(), signal);
        const { uuid } = await machine.record();
        const cut = async (before: () => Promise<unknown>, work: () => Promise<unknown>): Promise<number> =>
          machine.kernel.cutRepeatedly({
            prepare: async () => {
              machine.kernel.restart();
              await before();
            },
            work,
            after: async () => {
              // An agent that was killed finds the disk open, and repeats the work.
              if (!reboots) await work();
              await opens();
            },
            reboots,
          });
        const given = await cut(takeBack, () => give(ports));
        const taken = await cut(() => give(ports), takeBack);
        expect([given > 20, taken > 20, (await machine.record()).uuid]).toEqual([true, true, uuid]);
      });
    },
    600_000,
  );

  test('of opening with the share of a signer leaves a disk that opens at the next start', async () => {
    await machine.run(async (ports) => {
      await openStateDisk(ports, machine.settings(), signal);
      await give(ports);
      const opened = await machine.kernel.cutRepeatedly({
        prepare: () => Promise.resolve(machine.kernel.reboot()),
        work: () => openStateDisk(ports, machine.settings(), signal, askShare),
        after: async () =>
          expect(await openStateDisk(ports, machine.settings(), signal, askShare)).toBe('opened'),
        reboots: true,
      });
      expect(opened).toBeGreaterThan(8);
    });
  }, 600_000);
});
