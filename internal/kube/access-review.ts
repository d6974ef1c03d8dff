import { z } from 'zod';
import type { KubeClient } from './client.ts';
import { KubeError } from './errors.ts';

const PATH = '/apis/authorization.k8s.io/v1/subjectaccessreviews';
const shape = z.object({
  status: z.object({
    allowed: z.boolean(),
    denied: z.boolean().default(false),
    reason: z.string().default(''),
  }),
});

/** What an API server decides about somebody; `denied` is final, not allowed is only nobody's yes. */
type AccessDecision = z.infer<typeof shape>['status'];

/** Asks an API server what it would say to the kubelet of a node that reads its own Node object. */
export async function reviewKubelet(
  client: KubeClient,
  node: { readonly name: string; readonly nodeId: string },
  signal: AbortSignal,
): Promise<AccessDecision> {
  const review = {
    apiVersion: 'authorization.k8s.io/v1',
    kind: 'SubjectAccessReview',
    spec: {
      user: `system:node:${node.name}`,
      uid: node.nodeId,
      groups: ['system:nodes', 'system:authenticated'],
      resourceAttributes: { verb: 'get', version: 'v1', resource: 'nodes', name: node.name },
    },
  };
  const parsed = shape.safeParse(await client.postJson(PATH, review, signal));
  if (parsed.success) return parsed.data.status;
  throw new KubeError('kube-failed', `asking ${client.server} about ${node.name}: the answer is no review`, {
    cause: parsed.error,
  });
}
