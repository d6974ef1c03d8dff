import { z } from 'zod';
import { KUBERNETES_GROUPS, type OperatorRole } from '../../internal/role/index.ts';

const API_VERSION = 'authorization.k8s.io/v1';
const NODE_USER = 'system:node:';
const NODES_GROUP = 'system:nodes';
const OPERATOR_GROUPS = [KUBERNETES_GROUPS.operator, KUBERNETES_GROUPS.viewer];
/** The beginning of the UID of a person. The UID is the fingerprint of the person's key. */
const PERSON_UID = 'sha256:';

/** The fields of authorization.k8s.io/v1 SubjectAccessReview that the decision depends on. */
const shape = z.object({
  apiVersion: z.literal(API_VERSION),
  kind: z.literal('SubjectAccessReview'),
  spec: z.object({
    user: z.string().max(512).default(''),
    uid: z.string().max(128).default(''),
    groups: z.array(z.string().max(512)).max(1024).default([]),
  }),
});

/** The user of a request, as the API server authenticated it. */
export type ReviewSubject = z.infer<typeof shape>['spec'];

/**
 * The identity that a subject claims: a node by its ID, or an owner, operator or viewer by the fingerprint of their
 * key.
 */
export interface Claim {
  readonly kind: 'node' | 'operator';
  readonly id: string;
  readonly isOwner: boolean;
}

/** The record of a claimed identity. */
export type RecordedMember =
  | { readonly kind: 'node'; readonly name: string; readonly isMember: boolean }
  | { readonly kind: 'operator'; readonly name: string; readonly role: OperatorRole };

/** The decision of the webhook. The webhook never allows a request; it only denies it or has no opinion. */
export type ReviewDecision =
  { readonly kind: 'no-opinion' } | { readonly kind: 'deny'; readonly reason: string };

/** Parses a SubjectAccessReview; throws for any other document. */
export function parseReview(text: string): ReviewSubject {
  return shape.parse(JSON.parse(text)).spec;
}

/**
 * Returns the identity whose record decides about the subject; undefined for users who need no record. The
 * administrators in the kubeadm files on control planes are in the group of owners too. They need no record: their
 * certificates have no UID with the key of a person.
 */
export function claimOf({ user, groups, uid }: ReviewSubject): Claim | undefined {
  if (user.startsWith(NODE_USER) || groups.includes(NODES_GROUP))
    return { kind: 'node', id: uid, isOwner: false };
  if (OPERATOR_GROUPS.some((group) => groups.includes(group)))
    return { kind: 'operator', id: uid, isOwner: false };
  const isOwner = groups.includes(KUBERNETES_GROUPS.owner) && uid.startsWith(PERSON_UID);
  return isOwner ? { kind: 'operator', id: uid, isOwner } : undefined;
}

/**
 * Denies kubelets of nodes that are not members, and people who are not on record with the group's role. The UID in
 * their client certificates is an ID that is derived from their key. So a kubelet is denied if another machine has
 * its node name now.
 */
export function decideReview(subject: ReviewSubject, member: RecordedMember | undefined): ReviewDecision {
  const { user, groups, uid } = subject;
  const claim = claimOf(subject);
  if (claim === undefined) return { kind: 'no-opinion' };
  if (uid === '') return deny(`the credential of ${user} has no ID of a ${claim.kind}`);
  if (member?.kind !== claim.kind) return deny(`${claim.kind} ${uid} not found`);
  if (member.kind === 'operator') {
    // The first certificate of an owner has the name "owner", whatever the record says.
    if (!claim.isOwner && user !== member.name) return deny(`the key of ${user} belongs to ${member.name}`);
    const other = Object.values(KUBERNETES_GROUPS).find(
      (group) => groups.includes(group) && group !== KUBERNETES_GROUPS[member.role],
    );
    return other === undefined
      ? { kind: 'no-opinion' }
      : deny(`${user} has the role ${member.role} now: run cluster kubeconfig --renew`);
  }
  if (!member.isMember) return deny(`node ${uid} is no longer a member`);
  if (user !== `${NODE_USER}${member.name}`) return deny(`node ${uid} is ${member.name}, not ${user}`);
  return { kind: 'no-opinion' };
}

/** The response to the API server, JSON. */
export function renderDecision(decision: ReviewDecision): string {
  const status =
    decision.kind === 'deny'
      ? { allowed: false, denied: true, reason: `cluster: ${decision.reason}` }
      : { allowed: false };
  return JSON.stringify({ apiVersion: API_VERSION, kind: 'SubjectAccessReview', status });
}

function deny(reason: string): ReviewDecision {
  return { kind: 'deny', reason };
}
