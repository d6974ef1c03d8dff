import { createHash } from 'node:crypto';
import { describe, expect, test } from '@jest/globals';
import {
  encodeBackupCertificate,
  recoveryKeyOfOwner,
  signBackupCertificate,
} from '../../../internal/backup/index.ts';
import { ed25519PubKeyFrom, generateEd25519Key } from '../../../internal/crypto/index.ts';
import { findCoded } from '../../../internal/errors/index.ts';
import { FakeClock, MemoryFiles } from '../../../internal/testing/index.ts';
import { requireCurrent, verifySchedule } from './verify-schedule.ts';

const NOW = 1_800_000_000_000;
const HOUR = 3_600_000;
const NODE = `node-${'a'.repeat(32)}`;
const ownerPem = generateEd25519Key();
const otherPem = generateEd25519Key();
const owner = ed25519PubKeyFrom(ownerPem) ?? new Uint8Array();

type Change = Partial<Parameters<typeof signBackupCertificate>[0]>;

function signed(change: Change = {}, keyPem = ownerPem): Uint8Array {
  const content = {
    ...{ clusterId: 'c0ffee', epoch: 2, nodeIds: [NODE], everyMinutes: 60, keep: 3 },
    ...{ recipients: [recoveryKeyOfOwner(ownerPem).recipient], issuedMs: NOW, endsMs: NOW + HOUR },
  };
  return encodeBackupCertificate(signBackupCertificate({ ...content, ...change }, { keyPem, vouchers: [] }));
}

function edited(change: Readonly<Record<string, unknown>>): Uint8Array {
  const parsed = JSON.parse(Buffer.from(signed()).toString()) as Record<string, unknown>;
  return Buffer.from(JSON.stringify({ ...parsed, ...change }));
}

function trustOf(files = new MemoryFiles(), nowMs = NOW) {
  const clock = new FakeClock(nowMs);
  return { files, clock, clusterId: 'c0ffee', ownerKeys: [owner], newestSchedule: '/state/schedule.json' };
}

const NONE = new Uint8Array();
const codeOf = (work: Promise<unknown>): Promise<string | undefined> =>
  work.then(
    () => 'accepted',
    (error: unknown) => findCoded(error)?.code,
  );
const verify = (certificate: Uint8Array, { workspace = NONE, trust = trustOf() } = {}) =>
  codeOf(
    verifySchedule(trust, { certificate, workspace }).then((schedule) => requireCurrent(trust, schedule)),
  );

describe('verifySchedule()', () => {
  test('accepts what an owner signed, also again after a restart', async () => {
    const trust = trustOf();
    expect(await verify(signed(), { trust })).toBe('accepted');
    expect(await verify(signed(), { trust: trustOf(trust.files) })).toBe('accepted');
  });

  test.each([
    { name: 'signed by somebody else', bytes: signed({}, otherPem), want: 'backup-certificate-invalid' },
    { name: 'of another cluster', bytes: signed({ clusterId: 'x' }), want: 'backup-other-cluster' },
    {
      name: 'that has ended',
      bytes: signed({ issuedMs: NOW - HOUR, endsMs: NOW - 1 }),
      want: 'backup-certificate-invalid',
    },
    {
      name: 'whose recovery keys were changed after the signature',
      bytes: edited({ recipients: [recoveryKeyOfOwner(otherPem).recipient] }),
      want: 'backup-certificate-invalid',
    },
    {
      name: 'whose period was changed after the signature',
      bytes: edited({ everyMinutes: 1 }),
      want: 'backup-certificate-invalid',
    },
    {
      name: 'whose number of kept backups was changed after the signature',
      bytes: edited({ keep: 1 }),
      want: 'backup-certificate-invalid',
    },
    {
      name: 'whose control plane was changed after the signature',
      bytes: edited({ nodeIds: [`node-${'b'.repeat(32)}`] }),
      want: 'backup-certificate-invalid',
    },
    {
      name: 'whose end was changed after the signature',
      bytes: edited({ endsMs: NOW + 2 * HOUR }),
      want: 'backup-certificate-invalid',
    },
    { name: 'that is malformed', bytes: Buffer.from('{}'), want: 'backup-certificate-invalid' },
  ])('refuses a schedule $name', async ({ bytes, want }) => {
    expect(await verify(bytes)).toBe(want);
  });

  test('refuses a certificate that an owner signed for a single backup', async () => {
    const content = {
      ...{ clusterId: 'c0ffee', epoch: 2, nodeId: NODE, issuedMs: NOW, endsMs: NOW + HOUR },
      recipients: [recoveryKeyOfOwner(ownerPem).recipient],
    };
    const bytes = encodeBackupCertificate(signBackupCertificate(content, { keyPem: ownerPem, vouchers: [] }));
    expect(await verify(bytes)).toBe('backup-schedule-invalid');
  });

  test('refuses another workspace than the one that the owner signed', async () => {
    const workspace = Buffer.from('sealed');
    const workspaceSha256 = createHash('sha256').update(workspace).digest('hex');
    expect(await verify(signed({ workspaceSha256 }), { workspace })).toBe('accepted');
    expect(await verify(signed({ workspaceSha256 }))).toBe('backup-certificate-invalid');
    expect(await verify(signed(), { workspace })).toBe('backup-certificate-invalid');
  });

  test('refuses a schedule that is older than the one followed last, but accepts an older schedule with a new epoch', async () => {
    const { files } = trustOf();
    const trust = trustOf(files);
    expect(await verify(signed(), { trust })).toBe('accepted');
    expect(await verify(signed({ issuedMs: NOW - 1 }), { trust })).toBe('backup-schedule-invalid');
    expect(await verify(signed({ epoch: 3, issuedMs: NOW - 1 }), { trust })).toBe('accepted');
    expect(await verify(signed({ issuedMs: NOW + 1 }), { trust })).toBe('backup-schedule-invalid');
  });
});
