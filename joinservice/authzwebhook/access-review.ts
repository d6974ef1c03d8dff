import { z } from 'zod';

const API_VERSION = 'authorization.k8s.io/v1';
const NODE_USER = 'system:node:';
const NODES_GROUP = 'system:nodes';

/** The part of authorization.k8s.io/v1 SubjectAccessReview that is asked for here; what else it says does not matter. */
const shape = z.object({
  apiVersion: z.literal(API_VERSION),
  kind: z.literal('SubjectAccessReview'),
  spec: z.object({
    user: z.string().max(512).default(''),
    uid: z.string().max(128).default(''),
    groups: z.array(z.string().max(512)).max(1024).default([]),
  }),
});

/** Who asks something of the API server, as it authenticated them. */
export type ReviewSubject = z.infer<typeof shape>['spec'];

/** A node as far as it matters here; undefined where no record has this id. */
export interface NodeMembership {
  readonly name: string;
  readonly isMember: boolean;
}

export type ReviewDecision =
  { readonly kind: 'no-opinion' } | { readonly kind: 'deny'; readonly reason: string };

/** Throws for what is no SubjectAccessReview of version 1. */
export function parseReview(text: string): ReviewSubject {
  return shape.parse(JSON.parse(text)).spec;
}

/** The node that a subject says to be the kubelet of; undefined for everybody who says nothing of the kind. */
export function claimedNodeOf({ user, groups, uid }: ReviewSubject): string | undefined {
  return user.startsWith(NODE_USER) || groups.includes(NODES_GROUP) ? uid : undefined;
}

/**
 * Whether a kubelet's node is a member. The certificate carries the node's id, which is its key's own, as the user's uid:
 * a name that was given to another machine does not let the old one in.
 */
export function decideReview(subject: ReviewSubject, standing: NodeMembership | undefined): ReviewDecision {
  const { user, uid } = subject;
  if (claimedNodeOf(subject) === undefined) return { kind: 'no-opinion' };
  if (uid === '') return deny(`${user} shows a credential that names no node's id`);
  if (standing === undefined) return deny(`node ${uid} is on no record`);
  if (!standing.isMember) return deny(`node ${uid} is no member any more`);
  if (user !== `${NODE_USER}${standing.name}`)
    return deny(`node ${uid} is ${standing.name} and not the one that ${user} names`);
  return { kind: 'no-opinion' };
}

/** The answer to the API server. */
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
