import { z } from 'zod';
import { type KubeClient, KubeError } from './client/index.ts';

const PATH = '/apis/authorization.k8s.io/v1/subjectaccessreviews';
const shape = z.object({
  status: z.object({
    allowed: z.boolean(),
    denied: z.boolean().default(false),
    reason: z.string().default(''),
  }),
});

/**
 * The decision of an API server. `denied`: an authorizer refused. Neither allowed nor denied: no authorizer
 * had an opinion.
 */
type AccessDecision = z.infer<typeof shape>['status'];

/** Whether an API server would allow the kubelet of a node to read its own Node object. */
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
  throw new KubeError(
    'kube-failed',
    `reviewing access of node ${node.name} at ${client.server}: response is not a SubjectAccessReview`,
    {
      cause: parsed.error,
    },
  );
}
