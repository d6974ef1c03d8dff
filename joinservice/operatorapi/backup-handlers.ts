import { parseBackupCertificate } from '../../internal/backup/index.ts';
import { remove } from '../../internal/etcd/index.ts';
import {
  BACKUP_COPIES_PREFIX,
  BACKUP_HEAD_KEY,
  BACKUP_SCHEDULE_KEY,
  KEPT_BACKUPS_PREFIX,
  records,
  type BackupCopiesRecord,
  type BackupRecord,
} from '../../internal/records/index.ts';
import { mutationFrom, nameOfCaller, refuseField } from '../curator/index.ts';
import { PutBackupScheduleRequestSchema } from '../curatorproto/gen/operatorapi_pb.js';
import type { HandlersOf, OperatorApiParts } from './operator-api-parts.ts';

/** etcd refuses requests above 1.5 MiB, and a record in base64 is a third larger. */
const MAX_WORKSPACE_BYTES = 900_000;

/** Stores the schedule of backups, and lists the backups that control planes keep. Agents verify the schedule and take the backups. */
export function backupHandlers({
  etcd,
  mutations,
  nodes,
  clock,
}: Pick<OperatorApiParts, 'etcd' | 'mutations' | 'nodes' | 'clock'>): HandlersOf<
  'listBackups' | 'putBackupSchedule'
> {
  return {
    listBackups: async (_request, { signal }) => {
      const schedule = (await records.backupSchedule.read(etcd, BACKUP_SCHEDULE_KEY, signal)).record;
      const { failure } = (await records.backupHead.read(etcd, BACKUP_HEAD_KEY, signal)).record ?? {};
      const { entries } = await etcd.list(KEPT_BACKUPS_PREFIX, { signal });
      const kept = entries.map(({ key, value }) => records.backup.decode(key, value));
      const copies = (await etcd.list(BACKUP_COPIES_PREFIX, { signal })).entries.map(({ key, value }) =>
        records.backupCopies.decode(key, value),
      );
      const names = new Map(
        (await nodes.list(signal)).nodes.map(({ record }) => [record.nodeId, record.name] as const),
      );
      return {
        ...(schedule && {
          certificate: Buffer.from(schedule.certificate, 'base64'),
          scheduledBy: schedule.updatedBy,
        }),
        backups: kept.toSorted((a, b) => b.seq - a.seq).map((each) => backupToWire(each, names)),
        ...(failure && { failure: failureToWire(failure, failure.nodeId, names) }),
        copies: copies.flatMap((each) => copiesToWire(each, names)),
      };
    },
    putBackupSchedule: async (request, call) => {
      const { certificate, workspace } = request;
      const { signal } = call;
      if (certificate.length > 0) requireSchedule(certificate);
      if (workspace.length > MAX_WORKSPACE_BYTES)
        refuseField('workspace', `${workspace.length} bytes, at most ${MAX_WORKSPACE_BYTES}`);
      const mutation = mutationFrom(PutBackupScheduleRequestSchema, request, {
        ...call,
        subject: 'backup-schedule',
      });
      await mutations.run(mutation, async () => {
        const before = await records.backupSchedule.read(etcd, BACKUP_SCHEDULE_KEY, signal);
        const record = {
          version: 1 as const,
          certificate: Buffer.from(certificate).toString('base64'),
          workspace: Buffer.from(workspace).toString('base64'),
          updatedMs: Math.round(clock.nowMs()),
          updatedBy: nameOfCaller(call.peer),
        };
        const write =
          certificate.length === 0
            ? remove(BACKUP_SCHEDULE_KEY)
            : records.backupSchedule.put(BACKUP_SCHEDULE_KEY, record);
        return { when: [before.unchanged], then: [write], detail: { ends: certificate.length === 0 } };
      });
      return {};
    },
  };
}

/**
 * Refuses other documents than a schedule, which can only be mistakes. The signature is not verified here, because
 * every agent verifies it.
 */
function requireSchedule(bytes: Uint8Array): void {
  if (parseBackupCertificate(bytes).version !== 2)
    refuseField('certificate', 'expected the certificate of a schedule');
}

/** Converts the copies of a node for the contract; empty if the cluster does not have this node any more. */
function copiesToWire(
  { nodeId, directory, names: copied, failure }: BackupCopiesRecord,
  names: ReadonlyMap<string, string>,
) {
  const nodeName = names.get(nodeId);
  if (nodeName === undefined) return [];
  const why = failure && { failure: failureToWire(failure, nodeId, names) };
  return [{ nodeId, nodeName, directory, names: copied, ...why }];
}

function failureToWire(
  { timeMs, code, message }: { readonly timeMs: number; readonly code: string; readonly message: string },
  nodeId: string,
  names: ReadonlyMap<string, string>,
) {
  return { nodeId, nodeName: names.get(nodeId) ?? '', timeMs: BigInt(timeMs), code, message };
}

function backupToWire(record: BackupRecord, names: ReadonlyMap<string, string>) {
  const { name, seq, nodeId, takenMs, provedMs = 0, proof, epoch, sha256, sizeBytes } = record;
  return {
    ...{ name, seq: BigInt(seq), nodeId, nodeName: names.get(nodeId) ?? '', sha256 },
    ...{ takenMs: BigInt(takenMs), provedMs: BigInt(provedMs) },
    ...{ epoch: BigInt(epoch), sizeBytes: BigInt(sizeBytes) },
    ...(proof && { proofPlace: proof.place, proofBytes: BigInt(proof.sizeBytes) }),
  };
}
