import { create } from '@bufbuild/protobuf';
import { beforeEach, describe, expect, test } from '@jest/globals';
import { randomUUID } from 'node:crypto';
import {
  encodeBackupCertificate,
  recoveryKeyOfOwner,
  signBackupCertificate,
} from '../../internal/backup/index.ts';
import { AuditLog } from '../../internal/auditlog/index.ts';
import { generateEd25519Key } from '../../internal/crypto/index.ts';
import { findCoded } from '../../internal/errors/index.ts';
import { AUDIT_PREFIX, BACKUP_HEAD_KEY, records, type BackupRecord } from '../../internal/records/index.ts';
import { FakeClock, MemoryEtcd } from '../../internal/testing/index.ts';
import { Mutations, type Caller, type NodeView } from '../curator/index.ts';
import {
  ListBackupsRequestSchema,
  PutBackupScheduleRequestSchema,
} from '../curatorproto/gen/operatorapi_pb.js';
import { backupHandlers } from './backup-handlers.ts';

const NOW = 1_800_000_000_000;
const never = new AbortController().signal;
const owner = { kind: 'operator', name: 'owner', role: 'owner' } as unknown as Caller;
const call = { peer: owner, signal: never, address: '192.0.2.1' };
const ownerPem = generateEd25519Key();
const NODE = `node-${'a'.repeat(32)}`;

let etcd: MemoryEtcd;
let handlers: ReturnType<typeof backupHandlers>;
beforeEach(() => {
  etcd = new MemoryEtcd();
  const clock = new FakeClock(NOW);
  const mutations = new Mutations({ etcd, clock, audit: new AuditLog({ etcd }) });
  const nodes = {
    list: async () => ({ nodes: [{ record: { nodeId: NODE, name: 'n1' } } as NodeView], revision: 1n }),
  };
  handlers = backupHandlers({ etcd, mutations, clock, nodes });
});

const about = {
  ...{ clusterId: 'c0ffee', epoch: 1, recipients: [recoveryKeyOfOwner(ownerPem).recipient] },
  ...{ issuedMs: NOW, endsMs: NOW + 1 },
};
const by = { keyPem: ownerPem, vouchers: [] };
const schedule = encodeBackupCertificate(
  signBackupCertificate({ ...about, nodeIds: [NODE], everyMinutes: 60, keep: 3 }, by),
);
const put = (certificate: Uint8Array, workspace: Uint8Array = new Uint8Array()) =>
  handlers.putBackupSchedule(
    create(PutBackupScheduleRequestSchema, {
      ...{ certificate, workspace, mutation: { idempotencyKey: randomUUID() } },
    }),
    call,
  );
const list = async () => handlers.listBackups(create(ListBackupsRequestSchema), call);

function kept(seq: number, nodeId = NODE): BackupRecord {
  return {
    ...{ version: 1, seq, nodeId, name: `${String(seq).padStart(8, '0')}-20270115T080000000Z.backup` },
    ...{ takenMs: NOW, epoch: 1, sha256: '0'.repeat(64), sizeBytes: 9 },
  };
}

const codeOf = (work: Promise<unknown>): Promise<string | undefined> =>
  work.then(
    () => 'accepted',
    (error: unknown) => findCoded(error)?.code,
  );

describe('the schedule of backups', () => {
  test('is stored as the owner signed it, is written to the audit log, and ends when an empty schedule is stored', async () => {
    expect(await list()).toEqual({ backups: [], copies: [] });
    await put(schedule, Buffer.from('sealed'));
    expect(await list()).toMatchObject({ certificate: Buffer.from(schedule), scheduledBy: 'operator:owner' });
    await put(new Uint8Array());
    expect(await list()).toEqual({ backups: [], copies: [] });
    expect((await etcd.list(AUDIT_PREFIX, { signal: never })).entries).toHaveLength(2);
  });

  test.each([
    {
      name: 'the permission for a single backup',
      bytes: encodeBackupCertificate(signBackupCertificate({ ...about, nodeId: NODE }, by)),
      want: 'curator-request-invalid',
    },
    { name: 'something else', bytes: Buffer.from('{}'), want: 'backup-certificate-invalid' },
  ])('refuses $name', async ({ bytes, want }) => {
    expect(await codeOf(put(bytes))).toBe(want);
  });

  test('refuses a workspace that is too large for etcd', async () => {
    expect(await codeOf(put(schedule, new Uint8Array(900_001)))).toBe('curator-request-invalid');
  });
});

test('backups are listed by number, newest first, with the names of nodes and the last failure', async () => {
  const failure = { nodeId: NODE, timeMs: NOW, code: 'backup-node-space', message: 'full' };
  await etcd.commit(
    {
      when: [],
      then: [
        records.backup.put(records.backup.key('1'), kept(1)),
        records.backup.put(records.backup.key('2'), {
          ...{ ...kept(2, 'node-gone'), provedMs: NOW },
          proof: { place: 'clear', sizeBytes: 4096 },
        }),
        records.backupHead.put(BACKUP_HEAD_KEY, { version: 1, seq: 2, failure }),
      ],
    },
    { signal: never },
  );
  expect(await list()).toMatchObject({
    backups: [
      { seq: 2n, nodeName: '', provedMs: BigInt(NOW), proofPlace: 'clear', proofBytes: 4096n },
      { seq: 1n, nodeName: 'n1', provedMs: 0n },
    ],
    failure: { nodeName: 'n1', code: 'backup-node-space', message: 'full' },
  });
});
