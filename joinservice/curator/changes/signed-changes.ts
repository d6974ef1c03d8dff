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

/** For `Authority.submission`: who brings documents. */
export function submitterOf({ peer, signal }: Pick<Call<Caller>, 'peer' | 'signal'>) {
  return { recordedBy: nameOfCaller(peer), signal };
}

/** What is to be done, with the documents that allow it stored in the same transaction. */
export function withDocuments(plan: MutationPlan, submission: Submission): MutationPlan {
  if (submission.then.length === 0) return plan;
  return {
    when: [...plan.when, ...submission.when],
    then: [...plan.then, ...submission.then],
    detail: { ...plan.detail, documents: submission.detail },
  };
}

export function ownerSignatureMissing(doing: string): OwnerDocumentError {
  return new OwnerDocumentError('owner-document-required', `${doing}: it needs an owner's signature`);
}

/**
 * That an owner has signed a place in the control plane, if these roles are one that the node does not have: granted now
 * or before, or listed in an inventory that an owner signed.
 * @throws OwnerDocumentError `owner-document-required`, or why the document is refused that is on record
 */
export async function verifyControlPlaneGrant(
  parts: { readonly etcd: KeySpace; readonly ownerDocs: OwnerDocuments; readonly submission: Submission },
  { node, roles }: { readonly node: NodeRecord; readonly roles: readonly Role[] },
  signal: AbortSignal,
): Promise<void> {
  if (!gainsControlPlane(node.roles, roles)) return;
  const { etcd, ownerDocs, submission } = parts;
  const place = grantSubjectOf(node);
  if (isGranted(submission.find('grant', node.nodeId), place, roles)) return;
  const entry = await etcd.get(CONFIGURATION_KEY, { signal });
  const config = readableConfiguration(entry);
  if (
    entry !== undefined &&
    config !== undefined &&
    isListedAs(config.join.inventory, place.identity, roles)
  ) {
    const why = await ownerDocs.whyConfigurationUnsigned(
      sha256Of(storedConfiguration(entry).document),
      signal,
    );
    if (why === undefined) return;
  }
  const { document } = await ownerDocs.tryNewest('grant', node.nodeId, signal);
  if (!isGranted(document, place, roles)) throw ownerSignatureMissing(`making ${node.name} a control plane`);
}

/** undefined: there is none, or nobody can read it. */
export function readableConfiguration(entry: Entry | undefined): ClusterConfig | undefined {
  if (entry === undefined) return undefined;
  try {
    return parseClusterConfig(Buffer.from(storedConfiguration(entry).document).toString('utf8'), entry.key);
  } catch (error) {
    if (error instanceof CodedError) return undefined;
    throw error;
  }
}
