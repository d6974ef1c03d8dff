import type { AuditLog } from '../../../internal/auditlog/index.ts';
import type { Clock } from '../../../internal/clock/index.ts';
import type { KeySpace } from '../../../internal/etcd/index.ts';
import type { Readable } from '../../../internal/event/index.ts';
import type { OwnerDocuments } from '../../ownerdocs/index.ts';
import { JoinError } from '../errors.ts';
import type { JoinFeed } from '../requests/join-feed.ts';
import { requireConfiguration, type ActiveConfiguration } from './active-configuration.ts';
import { readApplicantRecords, type CheckedRecords } from './applicant-records.ts';
import type { Applicant } from './applicant.ts';
import { decideJoin, type JoinDecision } from './decide-join.ts';

const MAX_TRIES = 16;

/** Dependencies of a decision. */
export interface DecisionPorts {
  readonly etcd: KeySpace;
  readonly audit: AuditLog;
  readonly feed: JoinFeed;
  readonly configuration: Readable<ActiveConfiguration>;
  readonly ownerDocs: OwnerDocuments;
  readonly clock: Clock;
  /** The control plane that decides, for the audit log. */
  readonly nodeId: string;
}

/** A decision, with the records and the time that the decision is based on. */
export interface DecidedApplicant {
  readonly decision: JoinDecision;
  readonly onRecord: CheckedRecords;
  readonly nowMs: number;
}

/** Reads the records about an applicant and decides about it with the current configuration. @throws JoinError `join-not-ready` */
export async function decideApplicant(
  ports: DecisionPorts,
  applicant: Applicant,
  signal: AbortSignal,
): Promise<DecidedApplicant> {
  const active = requireConfiguration(ports.configuration);
  const nowMs = ports.clock.nowMs();
  const onRecord = await readApplicantRecords({ ...ports, nowMs }, applicant, { ...active, signal });
  return { decision: decideJoin(applicant, onRecord, { policy: active.policy, nowMs }), onRecord, nowMs };
}

/**
 * Decides again while other writers change the records before the decision is written.
 * @param attempt resolves with undefined if its transaction lost the race
 * @throws JoinError `join-busy`
 */
export async function untilWritten<T>(doing: string, attempt: () => Promise<T | undefined>): Promise<T> {
  for (let tries = 0; tries < MAX_TRIES; tries++) {
    const result = await attempt();
    if (result !== undefined) return result;
  }
  throw new JoinError('join-busy', `${doing}: its records were changed ${MAX_TRIES} times meanwhile`);
}
