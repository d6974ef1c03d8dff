import { createHash, sign } from 'node:crypto';
import { open, truncate, writeFile, copyFile, mkdir } from 'node:fs/promises';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import {
  decryptAge,
  parseRecipient,
  parseRecoveryKey,
  recoveryKeyOfOwner,
  type RecoveryKey,
} from '../../internal/backup/index.ts';
import { canonicalJson, generateEd25519Key } from '../../internal/crypto/index.ts';
import { parseLuksHeader } from '../../internal/luks/index.ts';
import { Secret } from '../../internal/secret/index.ts';
import {
  answerConsoleChallenge,
  approvalKeyOfOwner,
  createConsoleChallenge,
  decodeTyped,
  diskStateOf,
  encodeReady,
  isSealedShare,
  parseApprovalKey,
  recordKey,
  RecoveryShares,
  signApproval,
  SLOT_BYTES,
  slotKey,
  type ApprovalContent,
  type DiskShares,
  type RecordContent,
  type SharedRecovery,
} from '../../internal/statedisk/index.ts';
import { createSwtpmFactory, type SwtpmFactory } from '../../internal/testing/index.ts';
import { extendPcr, isApprovable } from '../../internal/tpm/index.ts';
import { Cryptsetup } from './cryptsetup.ts';
import { unsealShare } from './disk-seals.ts';
import { PowerCut, type PowerCuts } from './fake-kernel.ts';
import {
  approveSoftware,
  destroyStateDisk,
  openStateDisk,
  readDiskSeal,
  readLockedDisk,
  recoverStateDisk,
  type DiskPorts,
  type DiskSettings,
} from './index.ts';
import { DISK_BYTES, OWNER, REAL, FakeMachine } from './fake-machine.ts';

const signal = new AbortController().signal;
/** A recipient whose private key no test has. */
const NEW_RECIPIENT = recoveryKeyOfOwner(generateEd25519Key()).recipient;

let machine: FakeMachine;
let others: SwtpmFactory;
beforeAll(async () => {
  machine = await FakeMachine.create();
  others = await createSwtpmFactory();
}, 60_000);
afterAll(async () => {
  await machine[Symbol.asyncDispose]();
  await others[Symbol.asyncDispose]();
});
beforeEach(async () => {
  await machine.reset();
});

async function recoveryKeyOf({ recovery }: Pick<RecordContent, 'recovery'>): Promise<Secret<Uint8Array>> {
  if (recovery.kind !== 'key') throw new Error('the owners have shares');
  return decrypted(recovery.sealed, parseRecoveryKey(OWNER.key));
}

async function decrypted(sealed: Uint8Array, key: RecoveryKey): Promise<Secret<Uint8Array>> {
  async function* bytes(): AsyncGenerator<Uint8Array> {
    yield await Promise.resolve(sealed);
  }
  const parts = await Array.fromAsync(decryptAge(bytes(), [key]));
  return new Secret(new Uint8Array(Buffer.concat(parts)));
}

const extend = ({ tpm }: DiskPorts, pcr: number): Promise<void> =>
  tpm.use(signal, (connection) =>
    extendPcr(connection, { pcr, hash: 'sha256', digest: new Uint8Array(32).fill(1) }, signal),
  );

describe('openStateDisk()', () => {
  test('formats an empty disk, opens it after a reboot, and does not change an open disk', async () => {
    await machine.run(async (ports) => {
      expect(await openStateDisk(ports, machine.settings(), signal)).toBe('formatted');
      expect(machine.kernel.mountPoints).toEqual(['/mounted/disk', '/on-disk/cluster', '/on-disk/kubelet']);
      const record = await machine.record();
      expect(parseLuksHeader(record.header)).toMatchObject({ uuid: record.uuid, slots: [0, 1] });
      expect(await openStateDisk(ports, machine.settings(), signal)).toBe('open');
      machine.kernel.reboot();
      expect(await openStateDisk(ports, machine.settings(), signal)).toBe('opened');
      expect(machine.kernel.mountPoints).toHaveLength(3);
      expect((await machine.record()).uuid).toBe(record.uuid);
      expect(await REAL.files.stat(machine.at('memory'))).toBeUndefined();
    });
  });

  test('opens only with both shares of this disk, not with one share or with the shares of another disk', async () => {
    await machine.run(async (ports) => {
      await openStateDisk(ports, machine.settings(), signal);
      const content = await machine.record();
      const shareOf = (which: keyof DiskShares) =>
        unsealShare(ports, machine.settings(), { which, content }, signal);
      const [node, cluster] = [await shareOf('node'), await shareOf('cluster')];
      const zero = new Secret<Uint8Array>(new Uint8Array(32));
      const cryptsetup = new Cryptsetup(REAL, machine.settings(), machine.at('disk'), signal);
      await cryptsetup.putHeader(content.header);
      const opens = (shares: DiskShares, uuid = content.uuid): Promise<boolean> =>
        cryptsetup.check(0, slotKey(shares, uuid)).then(
          () => true,
          () => false,
        );
      expect({
        both: await opens({ node, cluster }),
        none: await opens({ node: zero, cluster: zero }),
        node: await opens({ node, cluster: zero }),
        cluster: await opens({ node: zero, cluster }),
        exchanged: await opens({ node: cluster, cluster: node }),
        otherDisk: await opens(
          { node, cluster },
          content.uuid.replace(/^./, (first) => (first === '0' ? '1' : '0')),
        ),
      }).toEqual({
        both: true,
        none: false,
        node: false,
        cluster: false,
        exchanged: false,
        otherDisk: false,
      });
      await cryptsetup.check(1, await recoveryKeyOf(content));
      await cryptsetup.clear();
    });
  });

  test('does not open a disk with another TPM', async () => {
    await machine.run((ports) => openStateDisk(ports, machine.settings(), signal));
    machine.kernel.reboot();
    await machine.run(async (ports) => {
      await expect(openStateDisk(ports, machine.settings(), signal)).rejects.toMatchObject({
        code: 'disk-locked',
      });
      expect(machine.kernel.effects).not.toContain('writeAt');
    }, others);
  });

  test('names the register that changed', async () => {
    await machine.run(async (ports) => {
      await openStateDisk(ports, machine.settings(), signal);
      machine.kernel.reboot();
      await extend(ports, 11);
      await expect(openStateDisk(ports, machine.settings(), signal)).rejects.toMatchObject({
        code: 'disk-locked',
        message: expect.stringContaining('changed: pcr11') as unknown,
        details: { pcr11: { sealed: '0'.repeat(64) } },
      });
      expect(machine.kernel.effects).not.toContain('writeAt');
    });
  });

  test('refuses an earlier copy of the disk, a disk from before the last formatting, an empty disk and a disk with another format', async () => {
    await machine.run(async (ports) => {
      await openStateDisk(ports, machine.settings(), signal);
      await copyFile(machine.at('disk'), machine.at('copy'));
      machine.kernel.reboot();
      await recoverStateDisk(ports, machine.settings(), {
        recoveryKey: await recoveryKeyOf(await machine.record()),
        signal,
      });
      const refusal = async (device: string): Promise<unknown> => {
        machine.kernel.reboot();
        const error: unknown = await openStateDisk(
          ports,
          machine.settings({ device: machine.at(device) }),
          signal,
        ).catch((each: unknown) => each);
        expect(machine.kernel.effects).not.toContain('writeAt');
        return (error as { readonly code?: string }).code;
      };
      expect(await refusal('copy')).toBe('statedisk-rolled-back');
      await writeFile(machine.at('empty'), '');
      await truncate(machine.at('empty'), DISK_BYTES);
      expect(await refusal('empty')).toBe('statedisk-lost');
      await writeFile(machine.at('foreign'), 'ext4');
      await truncate(machine.at('foreign'), DISK_BYTES);
      expect(await refusal('foreign')).toBe('statedisk-foreign');
      await writeFile(machine.at('small'), '');
      await truncate(machine.at('small'), DISK_BYTES - 4096);
      expect(await refusal('small')).toBe('disk-too-small');
      expect(await refusal('missing')).toBe('disk-device-missing');
      // Root confirms that the old disk is gone.
      await writeFile(machine.at('permit'), '');
      machine.kernel.reboot();
      expect(await openStateDisk(ports, machine.settings({ device: machine.at('empty') }), signal)).toBe(
        'formatted',
      );
      expect(await REAL.files.stat(machine.at('permit'))).toBeUndefined();
      expect(await refusal('disk')).toBe('statedisk-rolled-back');
    });
  });

  test('refuses to mount the disk over a directory with unencrypted files', async () => {
    await mkdir(machine.at('used'), { recursive: true });
    await writeFile(machine.at('used/ca.key'), 'secret');
    const used = {
      ...machine.settings(),
      directories: [{ name: 'cluster', path: machine.at('used'), mode: 0o700 }],
    };
    await machine.run(async (ports) => {
      await expect(openStateDisk(ports, used, signal)).rejects.toMatchObject({ code: 'disk-directory-used' });
      expect(machine.kernel.effects).toEqual([]);
    });
  });

  test('mounts the disk over programs of the operating system, also a disk that an older release has formatted', async () => {
    await mkdir(machine.at('programs'), { recursive: true });
    await writeFile(machine.at('programs/kubelet'), 'a program');
    const programs = { name: 'programs', path: machine.at('programs'), mode: 0o755, coversFiles: true };
    const later = { ...machine.settings(), directories: [...machine.settings().directories, programs] };
    await machine.run(async (ports) => {
      await openStateDisk(ports, machine.settings(), signal);
      machine.kernel.reboot();
      expect(await openStateDisk(ports, later, signal)).toBe('opened');
      expect(machine.kernel.created).toContain('/mounted/disk/programs');
      expect(machine.kernel.mountPoints).toContain(programs.path);
    });
  });
});

describe('recoverStateDisk()', () => {
  test('opens the disk on another machine with the owner’s recovery key; that machine opens the disk by itself at its next start', async () => {
    await machine.run((ports) => openStateDisk(ports, machine.settings(), signal));
    const before = await machine.record();
    machine.kernel.reboot();
    await machine.run(async (ports) => {
      const wrong = new Secret<Uint8Array>(new Uint8Array(32).fill(3));
      await copyFile(machine.at('disk'), machine.at('copy'));
      for (let attempt = 0; attempt < 3; attempt++)
        await expect(
          recoverStateDisk(ports, machine.settings(), { recoveryKey: wrong, signal }),
        ).rejects.toMatchObject({ code: 'disk-recovery-refused' });
      expect(await machine.isUntouched()).toBe(true);
      await recoverStateDisk(ports, machine.settings(), { recoveryKey: await recoveryKeyOf(before), signal });
      expect(machine.kernel.mountPoints).toHaveLength(3);
      machine.kernel.reboot();
      expect(await openStateDisk(ports, machine.settings(), signal)).toBe('opened');
      expect((await machine.record()).uuid).toBe(before.uuid);
    }, others);
  });

  test('calls no key wrong if cryptsetup fails in another way', async () => {
    await machine.run(async (ports) => {
      await openStateDisk(ports, machine.settings(), signal);
      const recoveryKey = await recoveryKeyOf(await machine.record());
      machine.kernel.reboot();
      const commands: DiskPorts['commands'] = {
        run: (command) =>
          command.argv.includes('--test-passphrase')
            ? REAL.commands.run({ argv: ['sh', '-c', 'exit 3'], signal })
            : ports.commands.run(command),
      };
      await expect(
        recoverStateDisk({ ...ports, commands }, machine.settings(), { recoveryKey, signal }),
      ).rejects.toMatchObject({ exitCode: 3 });
    });
  });
});

describe('a disk that two of three owners open together', () => {
  const owners = Array.from({ length: 3 }, () => recoveryKeyOfOwner(generateEd25519Key()));
  const [ann, ben, eve] = owners as [RecoveryKey, RecoveryKey, RecoveryKey];
  const together = (threshold = 2): DiskSettings => ({
    ...machine.settings(),
    recipients: [ann.recipient, ben.recipient, eve.recipient],
    recoveryThreshold: threshold,
  });
  function sharedOf({ recovery }: Pick<RecordContent, 'recovery'>): SharedRecovery {
    if (recovery.kind !== 'shares') throw new Error('the owners have the whole key');
    return recovery;
  }
  /** What each owner decrypts from the record. */
  const sharesOf = ({ shares }: SharedRecovery): Promise<Secret<Uint8Array>[]> =>
    Promise.all(owners.map((owner, at) => decrypted(shares[at]?.sealed ?? new Uint8Array(), owner)));

  test('opens with any two and with none alone; a recovery writes new shares', async () => {
    await machine.run(async (ports) => {
      await openStateDisk(ports, together(), signal);
      const before = sharedOf(await machine.record());
      expect(before.threshold).toBe(2);
      for (const [at, { sealed }] of before.shares.entries())
        for (const [other, owner] of owners.entries())
          if (at !== other)
            await expect(decrypted(sealed, owner)).rejects.toMatchObject({ code: 'backup-no-recovery-key' });
      const shares = await sharesOf(before);
      const recover = (recoveryKey: Secret<Uint8Array>): Promise<void> => {
        machine.kernel.reboot();
        return recoverStateDisk(ports, together(), { recoveryKey, signal });
      };
      for (const share of shares)
        for (const alone of [share.reveal(), share.reveal().subarray(0, 32)])
          await expect(recover(new Secret(alone))).rejects.toMatchObject({ code: 'disk-recovery-refused' });
      const collected = new RecoveryShares();
      for (const share of shares.slice(1)) expect(collected.add(before, share)).toBe(true);
      await recover(await collected.combine(before));
      const after = sharedOf(await machine.record());
      expect(after.threshold).toBe(2);
      const renewed = await sharesOf(after);
      for (const share of shares) expect(new RecoveryShares().add(after, share)).toBe(false);
      const again = new RecoveryShares();
      for (const share of renewed.slice(0, 2)) expect(again.add(after, share)).toBe(true);
      await recover(await again.combine(after));
    });
  });

  test('takes one code of each at the console', async () => {
    await machine.run(async (ports) => {
      await openStateDisk(ports, together(), signal);
      machine.kernel.reboot();
      const locked = await readLockedDisk(ports, together(), signal);
      if (locked.consoleRecovery === undefined) throw new Error('nothing for the console');
      const challenge = createConsoleChallenge({
        ...{ uuid: locked.uuid, recovery: locked.consoleRecovery },
        recipients: together().recipients.map(parseRecipient),
      });
      const collected = new RecoveryShares();
      for (const owner of [eve, ann]) {
        const typed = decodeTyped('challenge', challenge.text);
        const code = typed.kind === 'bytes' && answerConsoleChallenge(typed.bytes, owner.secret);
        const answer = decodeTyped('code', code ? code.reveal() : '');
        const share = answer.kind === 'bytes' ? challenge.open(answer.bytes) : undefined;
        if (share === undefined) throw new Error('the code was refused');
        expect(collected.add(sharedOf(locked), share)).toBe(true);
      }
      const recoveryKey = await collected.combine(sharedOf(locked));
      await recoverStateDisk(ports, together(), { recoveryKey, signal });
    });
  });

  test('keeps its number of owners: a provisioning file with a lower one gets no part for the console', async () => {
    await machine.run(async (ports) => {
      await openStateDisk(ports, together(), signal);
      const before = sharedOf(await machine.record());
      const collected = new RecoveryShares();
      for (const share of await sharesOf(before)) collected.add(before, share);
      const recoveryKey = await collected.combine(before);
      machine.kernel.reboot();
      await recoverStateDisk(ports, together(1), { recoveryKey, signal });
      const after = await machine.record();
      expect(after.consoleRecovery).toBeUndefined();
      expect(after.recovery).toEqual(before);
      machine.kernel.reboot();
      machine.records.length = 0;
      expect(await openStateDisk(ports, together(1), signal)).toBe('opened');
      expect(machine.records.map(({ message, fields }) => [message, fields])).toContainEqual([
        'the state disk keeps the recovery threshold of its formatting',
        { disk: 2, provisioned: 1 },
      ]);
    });
  });
});

describe('a code at the console', () => {
  /** The challenge of a start of the machine. `answer` is what the owner then types. */
  async function challengeOf(ports: DiskPorts) {
    const { uuid, consoleRecovery: recovery } = await readLockedDisk(ports, machine.settings(), signal);
    if (recovery === undefined) throw new Error('nothing for the console');
    const challenge = createConsoleChallenge({
      uuid,
      recovery,
      recipients: [parseRecipient(OWNER.recipient)],
    });
    const typed = decodeTyped('challenge', challenge.text);
    const bytes = typed.kind === 'bytes' ? typed.bytes : new Uint8Array();
    const answer = decodeTyped(
      'code',
      answerConsoleChallenge(bytes, parseRecoveryKey(OWNER.key).secret)?.reveal() ?? '',
    );
    return { challenge, answer: answer.kind === 'bytes' ? answer.bytes : new Uint8Array() };
  }

  test('recovers the disk on another machine, which then opens it by itself; no later challenge has the same code', async () => {
    await machine.run((ports) => openStateDisk(ports, machine.settings(), signal));
    const before = await machine.record();
    machine.kernel.reboot();
    await machine.run(async (ports) => {
      const earlier = await challengeOf(ports);
      const { challenge, answer } = await challengeOf(ports);
      await copyFile(machine.at('disk'), machine.at('copy'));
      expect([challenge.open(earlier.answer), challenge.open(new Uint8Array(16))]).toEqual([
        undefined,
        undefined,
      ]);
      expect(await machine.isUntouched()).toBe(true);
      const recoveryKey = challenge.open(answer);
      if (recoveryKey === undefined) throw new Error('the code was refused');
      expect(recoveryKey.reveal()).toEqual((await recoveryKeyOf(before)).reveal());
      await recoverStateDisk(ports, machine.settings(), { recoveryKey, signal });
      machine.kernel.reboot();
      expect(await openStateDisk(ports, machine.settings(), signal)).toBe('opened');
      const after = await machine.record();
      expect(after.consoleRecovery?.diskKey).not.toEqual(before.consoleRecovery?.diskKey);
      expect(after.consoleRecovery?.wrapped).not.toEqual(before.consoleRecovery?.wrapped);
      machine.kernel.reboot();
      await extend(ports, 11);
      const next = await challengeOf(ports);
      expect(next.challenge.open(answer)).toBeUndefined();
      expect(next.challenge.open(next.answer)).toBeDefined();
    }, others);
  });

  /** Why the disk has nothing for the console any more. */
  const consoleWarnings = (): unknown[] =>
    machine.records
      .filter(({ message }) => message === 'no later recovery of the state disk at the console')
      .map(({ fields }) => fields['reason']);
  /** A recovery after which the registers are again those of the machine. */
  const recover = async (ports: DiskPorts, of: DiskSettings): Promise<RecordContent> => {
    machine.kernel.reboot();
    const recoveryKey = await recoveryKeyOf(await machine.record());
    await recoverStateDisk(ports, of, { recoveryKey, signal });
    machine.kernel.reboot();
    expect(await openStateDisk(ports, of, signal)).toBe('opened');
    return machine.record();
  };

  test('can be typed after a recovery over the network', async () => {
    const both = { ...machine.settings(), recipients: [NEW_RECIPIENT, OWNER.recipient] as const };
    const turned = { ...both, recipients: [OWNER.recipient, NEW_RECIPIENT] as const };
    await machine.run(async (ports) => {
      await openStateDisk(ports, both, signal);
      await recover(ports, turned);
      machine.kernel.reboot();
      const { challenge, answer } = await challengeOf(ports);
      expect(challenge.open(answer)).toBeDefined();
    });
  });

  test.each([
    ['names another recipient', [NEW_RECIPIENT]],
    ['names one more recipient', [OWNER.recipient, NEW_RECIPIENT]],
  ] as const)('is for nobody after a recovery with a provisioning file that %s', async (_, recipients) => {
    await machine.run(async (ports) => {
      await openStateDisk(ports, machine.settings(), signal);
      const before = await machine.record();
      const after = await recover(ports, { ...machine.settings(), recipients: [...recipients] });
      expect(after.consoleRecovery).toBeUndefined();
      expect(after.recovery).toEqual(before.recovery);
      expect(consoleWarnings()).toEqual([
        'the recovery recipients of the provisioning file, or how many of them must act, are not those of the formatting',
      ]);
      expect((await recover(ports, machine.settings())).consoleRecovery?.wrapped).toHaveLength(1);
    });
  });

  test('is for nobody if an earlier release has formatted the disk, also after a recovery', async () => {
    await machine.run(async (ports) => {
      await openStateDisk(ports, machine.settings(), signal);
      const { slot, record } = await machine.state();
      const content = { ...record.content, consoleRecovery: undefined, recipientsMac: undefined };
      const node = await unsealShare(ports, machine.settings(), { which: 'node', content }, signal);
      const earlier = encodeReady(record.sequence, content, recordKey(node, content.uuid));
      await REAL.streams.writeAt(machine.at('disk'), slot * SLOT_BYTES, earlier);
      machine.kernel.reboot();
      expect(await openStateDisk(ports, machine.settings(), signal)).toBe('opened');
      machine.kernel.reboot();
      expect((await readLockedDisk(ports, machine.settings(), signal)).consoleRecovery).toBeUndefined();
      const after = await recover(ports, machine.settings());
      expect(after.consoleRecovery).toBeUndefined();
      expect(after.recovery).toEqual(content.recovery);
      expect(consoleWarnings()).toEqual(['an earlier release has formatted it']);
    });
  });
});

describe('approveSoftware()', () => {
  const key = approvalKeyOfOwner(generateEd25519Key());
  const approvable = (device = 'disk'): DiskSettings => ({
    ...machine.settings({ device: machine.at(device) }),
    approvalKey: parseApprovalKey(key.publicKey),
  });
  const update = new Uint8Array(32).fill(1); // what `extend()` measures
  const extended = (value: Uint8Array = new Uint8Array(32)): Uint8Array =>
    new Uint8Array(createHash('sha256').update(value).update(update).digest());

  /** Content of the next approval: the software that runs, and the same with an extended PCR 11. */
  async function nextApproval(ports: DiskPorts): Promise<ApprovalContent> {
    const { uuid, seals, generation, registers } = await readDiskSeal(ports, approvable(), signal);
    if (seals === undefined) throw new Error('not sealed for approvals');
    const updated = new Map([...registers, [11, extended(registers.get(11))]]);
    return { uuid, seals, generation: generation + 1n, software: [registers, updated] };
  }

  const approve = (ports: DiskPorts, content: ApprovalContent, by = key): Promise<void> =>
    approveSoftware(ports, approvable(), { approval: signApproval(content, by.privateKey), signal });

  /** An approval that is signed as a whole. The signatures for the TPM of software that does not run are exchanged. */
  function withExchangedSignatures(content: ApprovalContent): Uint8Array {
    const text = Buffer.from(signApproval(content, key.privateKey)).toString();
    const {
      signature: _,
      software,
      ...rest
    } = JSON.parse(text) as {
      readonly signature: string;
      readonly software: readonly { readonly signature: string }[];
    };
    const body = {
      ...rest,
      software: software.map((each, at) => ({
        ...each,
        signature: software[at === 0 ? 0 : 3 - at]?.signature,
      })),
    };
    const statement = `cluster/state-disk/approval/v1\0${canonicalJson(body)}`;
    const signed = sign('sha256', Buffer.from(statement), {
      ...{ key: key.privateKey, dsaEncoding: 'ieee-p1363' },
    });
    return Buffer.from(canonicalJson({ ...body, signature: signed.toString('base64') }));
  }

  /** Restarts the machine, whose PCRs then are zero. `updates`: how often its new software extends PCR 11. */
  async function started<T>(updates: number, use: (ports: DiskPorts) => Promise<T>): Promise<T> {
    machine.kernel.reboot();
    return machine.run(async (ports) => {
      for (let count = 0; count < updates; count++) await extend(ports, 11);
      return use(ports);
    });
  }
  const opened = (updates: number, device = 'disk'): Promise<string> =>
    started(updates, (ports) =>
      openStateDisk(ports, approvable(device), signal).catch(
        (error: unknown) => (error as { readonly code: string }).code,
      ),
    );

  test('lets the disk open with registers that an owner approved before the machine had them, and with the old ones', async () => {
    await started(0, async (ports) => {
      expect(await openStateDisk(ports, approvable(), signal)).toBe('formatted');
      await approve(ports, await nextApproval(ports));
      const { approved, opens } = await readDiskSeal(ports, approvable(), signal);
      expect([approved.length, opens]).toEqual([2, true]);
    });
    expect([await opened(1), await opened(0), await opened(2)]).toEqual(['opened', 'opened', 'disk-locked']);
  });

  test('replaces the approval before it, after which the software that is named no more stays locked', async () => {
    await started(0, async (ports) => {
      await openStateDisk(ports, approvable(), signal);
      await approve(ports, await nextApproval(ports));
      await copyFile(machine.at('disk'), machine.at('copy'));
    });
    await started(1, async (ports) => {
      await openStateDisk(ports, approvable(), signal);
      const { software, ...rest } = await nextApproval(ports);
      await approve(ports, { ...rest, software: [software[0]] });
    });
    expect([await opened(0), await opened(1)]).toEqual(['disk-locked', 'opened']);
    // The TPM refuses the approval in the earlier copy, before anybody compares the sequence of its record.
    expect(await opened(0, 'copy')).toBe('disk-locked');
  });

  test('may be repeated, e.g. after a lost answer', async () => {
    await started(0, async (ports) => {
      await openStateDisk(ports, approvable(), signal);
      const approval = signApproval(await nextApproval(ports), key.privateKey);
      await approveSoftware(ports, approvable(), { approval, signal });
      const { generation } = await readDiskSeal(ports, approvable(), signal);
      await approveSoftware(ports, approvable(), { approval, signal });
      expect(await readDiskSeal(ports, approvable(), signal)).toMatchObject({ generation });
    });
  });

  test('refuses an approval of another key, disk, seal, generation or of other registers, and changes nothing', async () => {
    await started(0, async (ports) => {
      await openStateDisk(ports, approvable(), signal);
      const content = await nextApproval(ports);
      const [running, updated = running] = content.software;
      const third = new Map([...updated, [11, extended(updated.get(11))]]);
      const without = (pcr: number) => new Map([...running].filter(([each]) => each !== pcr));
      await copyFile(machine.at('disk'), machine.at('copy'));
      const refusal = (changed: Partial<ApprovalContent>, by = key): Promise<unknown> =>
        approve(ports, { ...content, ...changed }, by).catch(
          (error: unknown) => (error as { readonly code: string }).code,
        );
      expect({
        key: await refusal({}, approvalKeyOfOwner(generateEd25519Key())),
        disk: await refusal({ uuid: '00000000-0000-4000-8000-000000000000' }),
        seal: await refusal({ seals: [content.seals[1] ?? new Uint8Array(), content.seals[0]] }),
        fewerSeals: await refusal({ seals: [content.seals[0]] }),
        earlier: await refusal({ generation: content.generation - 1n }),
        later: await refusal({ generation: content.generation + 1n }),
        fewer: await refusal({ software: [without(7)] }),
        notRunning: await refusal({ software: [updated] }),
        exchanged: await approveSoftware(ports, approvable(), {
          approval: withExchangedSignatures({ ...content, software: [running, updated, third] }),
          signal,
        }).catch((error: unknown) => (error as { readonly code: string }).code),
      }).toEqual({
        key: 'statedisk-approval-invalid',
        disk: 'disk-approval-refused',
        seal: 'disk-approval-refused',
        fewerSeals: 'disk-approval-refused',
        earlier: 'disk-approval-refused',
        later: 'disk-approval-refused',
        fewer: 'disk-approval-refused',
        notRunning: 'disk-approval-refused',
        exchanged: 'tpm-refused',
      });
      expect(await machine.isUntouched()).toBe(true);
      await expect(
        approveSoftware(ports, machine.settings(), {
          approval: signApproval(content, key.privateKey),
          signal,
        }),
      ).rejects.toMatchObject({ code: 'disk-approval-refused' });
    });
  });

  test('works on a disk of an earlier release, or with a new key, after the next start', async () => {
    await started(0, (ports) => openStateDisk(ports, machine.settings(), signal));
    const before = await machine.record();
    expect(await opened(0)).toBe('opened');
    const after = await machine.record();
    expect(after.uuid).toBe(before.uuid);
    expect(after.nodeShare.length).not.toBe(before.nodeShare.length);
    await started(0, async (ports) => {
      await openStateDisk(ports, approvable(), signal);
      expect((await machine.record()).nodeShare).toEqual(after.nodeShare);
      await approve(ports, await nextApproval(ports));
    });
    expect(await opened(1)).toBe('opened');
  });

  test('is not possible any more after a start without the key', async () => {
    await started(0, (ports) => openStateDisk(ports, approvable(), signal));
    const before = await machine.record();
    const withoutKey = (): Promise<unknown> =>
      started(0, (ports) => openStateDisk(ports, machine.settings(), signal));
    expect(await withoutKey()).toBe('opened');
    const after = await machine.record();
    expect(isApprovable(before.nodeShare)).toBe(true);
    for (const share of [after.nodeShare, after.clusterShare])
      expect(isSealedShare(share) && isApprovable(share)).toBe(false);
    expect(await withoutKey()).toBe('opened');
    expect(await machine.record()).toEqual(after);
  });

  test('ends with a recovery: the machine opens with the registers that it has then, and with no approved ones', async () => {
    await started(0, async (ports) => {
      await openStateDisk(ports, approvable(), signal);
      await approve(ports, await nextApproval(ports));
    });
    await started(2, async (ports) => {
      const before = await readDiskSeal(ports, approvable(), signal);
      await recoverStateDisk(ports, approvable(), {
        recoveryKey: await recoveryKeyOf(await machine.record()),
        signal,
      });
      const { generation } = await readDiskSeal(ports, approvable(), signal);
      expect([before.opens, generation]).toEqual([false, before.generation + 1n]);
    });
    expect([await opened(2), await opened(1), await opened(0)]).toEqual([
      'opened',
      'disk-locked',
      'disk-locked',
    ]);
  });
});

describe('destroyStateDisk()', () => {
  test('leaves no record: then neither an earlier copy nor the owner’s recovery key opens the disk', async () => {
    await machine.run(async (ports) => {
      await openStateDisk(ports, machine.settings(), signal);
      const content = await machine.record();
      await copyFile(machine.at('disk'), machine.at('copy'));
      await destroyStateDisk(ports, machine.settings(), signal);
      const start = Buffer.alloc(2 ** 24);
      await using handle = await open(machine.at('disk'));
      await handle.read(start, 0, start.length, 0);
      expect(diskStateOf(start)).toEqual({ kind: 'formatting' });
      expect(start.subarray(512).equals(Buffer.alloc(start.length - 512))).toBe(true);
      const recoveryKey = await recoveryKeyOf(content);
      await expect(
        recoverStateDisk(ports, machine.settings(), { recoveryKey, signal }),
      ).rejects.toMatchObject({
        code: 'disk-recovery-refused',
      });
      machine.kernel.reboot();
      await expect(
        openStateDisk(ports, machine.settings({ device: machine.at('copy') }), signal),
      ).rejects.toMatchObject({
        code: 'statedisk-rolled-back',
      });
      // This also works without a reboot, because the mounts of the destroyed disk are unmounted first.
      expect(await openStateDisk(ports, machine.settings(), signal)).toBe('formatted');
      await destroyStateDisk(ports, machine.settings(), signal);
      expect(await openStateDisk(ports, machine.settings(), signal)).toBe('formatted');
      expect(machine.kernel.mountPoints).toHaveLength(3);
      expect((await machine.record()).uuid).not.toBe(content.uuid);
    });
  });
});

describe('a power cut at any step', () => {
  const cutRepeatedly = (cut: PowerCuts): Promise<number> => machine.kernel.cutRepeatedly(cut);

  test.each([
    ['after a reboot', true],
    ['after a restart of the agent alone', false],
  ])(
    'of the formatting leaves a disk that is ready or gets formatted again, %s',
    async (_, reboots) => {
      await machine.run(async (ports) => {
        const count = await cutRepeatedly({
          prepare: () => machine.blank(),
          work: () => openStateDisk(ports, machine.settings(), signal),
          after: async () => {
            const before = await machine.record().catch(() => undefined);
            const outcome = await openStateDisk(ports, machine.settings(), signal);
            expect(machine.kernel.mountPoints).toHaveLength(3);
            // A disk that was ready once keeps its data.
            if (before !== undefined) expect((await machine.record()).uuid).toBe(before.uuid);
            else expect(outcome).toBe('formatted');
            machine.kernel.reboot();
            expect(await openStateDisk(ports, machine.settings(), signal)).toBe('opened');
          },
          reboots,
        });
        expect(count).toBeGreaterThan(30);
      });
    },
    600_000,
  );

  test('of opening or recovering leaves a disk that its shares open at the next start', async () => {
    await machine.run(async (ports) => {
      await openStateDisk(ports, machine.settings(), signal);
      const { uuid } = await machine.record();
      const prepare = (): Promise<void> => Promise.resolve(machine.kernel.reboot());
      const opened = await cutRepeatedly({
        prepare,
        work: () => openStateDisk(ports, machine.settings(), signal),
        after: async () => expect(await openStateDisk(ports, machine.settings(), signal)).toBe('opened'),
        reboots: true,
      });
      const recovered = await cutRepeatedly({
        prepare,
        work: async () =>
          recoverStateDisk(ports, machine.settings(), {
            recoveryKey: await recoveryKeyOf(await machine.record()),
            signal,
          }),
        after: async () => {
          expect(await openStateDisk(ports, machine.settings(), signal)).toBe('opened');
          expect((await machine.record()).uuid).toBe(uuid);
        },
        reboots: true,
      });
      expect([opened > 8, recovered > 20]).toEqual([true, true]);
    });
  }, 600_000);

  test('of a recovery never leaves a disk that is open now, but locked at the next boot', async () => {
    await machine.run(async (ports) => {
      await openStateDisk(ports, machine.settings(), signal);
      const recover = async (): Promise<void> =>
        recoverStateDisk(ports, machine.settings(), {
          recoveryKey: await recoveryKeyOf(await machine.record()),
          signal,
        });
      const recovered = await cutRepeatedly({
        prepare: async () => {
          machine.kernel.reboot();
          await extend(ports, 11);
        },
        work: recover,
        after: async () => {
          const code = await openStateDisk(ports, machine.settings(), signal).catch(
            (error: unknown) => (error as { readonly code?: string }).code,
          );
          if (code === 'disk-locked') await recover();
          machine.kernel.reboot();
          expect(await openStateDisk(ports, machine.settings(), signal)).toBe('opened');
        },
        reboots: false,
      });
      expect(recovered).toBeGreaterThan(20);
    });
  }, 600_000);

  test('of an approval, or of the first start with an approval key, leaves a disk that opens at the next start', async () => {
    const key = approvalKeyOfOwner(generateEd25519Key());
    const approvable = { ...machine.settings(), approvalKey: parseApprovalKey(key.publicKey) };
    await machine.run(async (ports) => {
      const opens = async (): Promise<void> =>
        expect(await openStateDisk(ports, approvable, signal)).toBe('opened');
      const sealed = await cutRepeatedly({
        prepare: async () => {
          await machine.blank();
          await openStateDisk(ports, machine.settings(), signal);
          machine.kernel.reboot();
        },
        work: () => openStateDisk(ports, approvable, signal),
        after: opens,
        reboots: true,
      });
      const approved = await cutRepeatedly({
        prepare: async () => {
          machine.kernel.reboot();
          await opens();
        },
        work: async () => {
          const { uuid, seals, generation, registers } = await readDiskSeal(ports, approvable, signal);
          if (seals === undefined) throw new Error('not sealed for approvals');
          const content = { uuid, seals, generation: generation + 1n, software: [registers] } as const;
          const approval = signApproval(content, key.privateKey);
          await approveSoftware(ports, approvable, { approval, signal });
        },
        after: opens,
        reboots: true,
      });
      expect([sealed > 15, approved > 15]).toEqual([true, true]);
    });
  }, 600_000);

  test('of destroying a disk leaves a disk that can be destroyed again, or that gets formatted', async () => {
    await machine.run(async (ports) => {
      const count = await cutRepeatedly({
        prepare: async () => {
          await machine.blank();
          await openStateDisk(ports, machine.settings(), signal);
          await copyFile(machine.at('disk'), machine.at('copy'));
        },
        work: () => destroyStateDisk(ports, machine.settings(), signal),
        after: async () => {
          // If the disk opens again, it still has the order to reset the machine.
          if ((await openStateDisk(ports, machine.settings(), signal)) === 'opened') {
            await destroyStateDisk(ports, machine.settings(), signal);
            machine.kernel.reboot();
            expect(await openStateDisk(ports, machine.settings(), signal)).toBe('formatted');
          }
          machine.kernel.reboot();
          await expect(
            openStateDisk(ports, machine.settings({ device: machine.at('copy') }), signal),
          ).rejects.toMatchObject({
            code: 'statedisk-rolled-back',
          });
        },
        reboots: true,
      });
      expect(count).toBeGreaterThan(6);
    });
  }, 600_000);

  test('lets the fake kernel do nothing afterwards', async () => {
    machine.kernel.restart(0);
    await expect(machine.kernel.counted('one', () => Promise.resolve())).rejects.toThrow(PowerCut);
    await expect(machine.kernel.counted('two', () => Promise.resolve())).rejects.toThrow(PowerCut);
  });
});
