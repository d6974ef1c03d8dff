import { z } from 'zod';

const API_VERSION = 'authorization.k8s.io/v1';
const NODE_USER = 'system:node:';
const NODES_GROUP = 'system:nodes';

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

/** The name of a recorded node, and whether it is a member. */
export interface NodeMembership {
  readonly name: string;
  readonly isMember: boolean;
}

/** The decision of the webhook; it never allows. */
export type ReviewDecision =
  { readonly kind: 'no-opinion' } | { readonly kind: 'deny'; readonly reason: string };

/** Parses a SubjectAccessReview; throws for any other document. */
export function parseReview(text: string): ReviewSubject {
  return shape.parse(JSON.parse(text)).spec;
}

/** The ID of the node whose kubelet the subject claims to be; undefined for other users. */
export function claimedNodeOf({ user, groups, uid }: ReviewSubject): string | undefined {
  return user.startsWith(NODE_USER) || groups.includes(NODES_GROUP) ? uid : undefined;
}

/**
 * Denies kubelets of nodes that are not members. The client certificate of a kubelet has the node ID as UID,
 * and the node ID is derived from the node key. So a kubelet is denied if another machine has its node name
 * now.
 */
export function decideReview(subject: ReviewSubject, node: NodeMembership | undefined): ReviewDecision {
  const { user, uid } = subject;
  if (claimedNodeOf(subject) === undefined) return { kind: 'no-opinion' };
  if (uid === '') return deny(`the credential of ${user} has no node ID`);
  if (node === undefined) return deny(`node ${uid} not found`);
  if (!node.isMember) return deny(`node ${uid} is no longer a member`);
  if (user !== `${NODE_USER}${node.name}`) return deny(`node ${uid} is ${node.name}, not ${user}`);
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
