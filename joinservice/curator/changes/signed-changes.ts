import { OwnerDocumentError } from '../../../internal/ownerdocument/index.ts';
import { parseClusterConfig, type ClusterConfig } from '../../../internal/config/index.ts';
import { CodedError } from '../../../internal/errors/index.ts';
import type { Entry, KeySpace } from '../../../internal/etcd/index.ts';
import { CONFIGURATION_KEY, type NodeRecord } from '../../../internal/records/index.ts';
import type { Role } from '../../../internal/role/index.ts';
import type { Call } from '../../../internal/rpc/index.ts';
import {
  gainsControlPlane,
  isGranted,
  isListedAs,
  grantSubjectOf,
  sha256Of,
  type OwnerDocuments,
  type Submission,
} from '../../ownerdocs/index.ts';
import { nameOfCaller, type Caller } from '../access/authorize-caller.ts';
import type { MutationPlan } from './mutations.ts';
import { storedConfiguration } from './stored-configuration.ts';

/** The caller who submits documents, for `OwnerDocuments.submission`. */
export function submitterOf({ peer, signal }: Pick<Call<Caller>, 'peer' | 'signal'>) {
  return { recordedBy: nameOfCaller(peer), signal };
}

/** Adds to a plan that the submitted documents are stored in the same transaction. */
export function withDocuments(plan: MutationPlan, submission: Submission | undefined): MutationPlan {
  if (submission === undefined || submission.then.length === 0) return plan;
  return {
    when: [...plan.when, ...submission.when],
    then: [...plan.then, ...submission.then],
    detail: { ...plan.detail, documents: submission.detail },
  };
}

/** The error for a change that needs the signature of an owner. */
export function ownerSignatureMissing(doing: string): OwnerDocumentError {
  return new OwnerDocumentError('owner-document-required', `${doing}: requires the signature of an owner`);
}

/**
 * Checks that an owner has signed control-plane roles that a node gains: by a grant, submitted or stored, or by an inventory
 * that lists the machine.
 * @throws OwnerDocumentError if no owner has signed them, or with the reason why the stored grant is refused
 */
export async function verifyControlPlaneGrant(
  parts: {
    readonly etcd: KeySpace;
    readonly ownerDocs: OwnerDocuments;
    readonly submission: Submission | undefined;
  },
  { node, roles }: { readonly node: NodeRecord; readonly roles: readonly Role[] },
  signal: AbortSignal,
): Promise<void> {
  if (!gainsControlPlane(node.roles, roles)) return;
  const { etcd, ownerDocs, submission } = parts;
  const subject = grantSubjectOf(node);
  if (isGranted(submission?.find('grant', node.nodeId), subject, roles)) return;
  const entry = await etcd.get(CONFIGURATION_KEY, { signal });
  const config = readableConfiguration(entry);
  if (
    entry !== undefined &&
    config !== undefined &&
    isListedAs(config.join.inventory, subject.identity, roles)
  ) {
    const why = await ownerDocs.whyConfigurationUnsigned(
      sha256Of(storedConfiguration(entry).document),
      signal,
    );
    if (why === undefined) return;
  }
  const { document } = await ownerDocs.tryNewest('grant', node.nodeId, signal);
  if (!isGranted(document, subject, roles))
    throw ownerSignatureMissing(`making ${node.name} a control plane`);
}

/** The stored configuration; undefined if there is none or it is invalid. */
export function readableConfiguration(entry: Entry | undefined): ClusterConfig | undefined {
  if (entry === undefined) return undefined;
  try {
    return parseClusterConfig(Buffer.from(storedConfiguration(entry).document).toString('utf8'), entry.key);
  } catch (error) {
    if (error instanceof CodedError) return undefined;
    throw error;
  }
}
