import { isIPv4 } from 'node:net';
import { z } from 'zod';
import { hostOf, parseEndpoint, PORTS } from '../endpoint/index.ts';
import { addProblem } from './errors.ts';
import { familiesOf } from './subnet.ts';

/**
 * The endpoint of the Kubernetes API for a node: its own balancer of the API servers, unless the operator has
 * one for all nodes (`apiServer.endpoint`).
 */
export const LOCAL_API_ENDPOINT = { host: '127.0.0.1', port: PORTS.apiBalancer } as const;

const LOOPBACK = /^(127\.[0-9.]+|localhost|\[::1\]):/i;

/** `apiServer.endpoint` of `cluster.yaml`: the operator's own virtual address or load balancer of the API servers. */
export const apiEndpointSchema = z
  .string()
  // The port is required, because the text is written into the configuration of every node.
  .refine(
    (text) => parseEndpoint(text, 0) === text && !LOOPBACK.test(text),
    'an address with a port that every node reaches, like “api.example.org:6443”',
  )
  .describe(
    'Your own virtual address or load balancer of the API servers, “host:port”. Nodes and kubeconfigs use it instead of node-local balancers. Set when the cluster is initialized: it must then forward connections to port 6443 of the first machine.',
  );

/** In a cluster without IPv4, nodes and pods do not reach an IPv4 address. */
export function checkApiEndpoint(
  {
    networking,
    apiServer: { endpoint },
  }: {
    readonly networking: { readonly serviceSubnet: string };
    readonly apiServer: { readonly endpoint?: string | undefined };
  },
  context: z.RefinementCtx,
): void {
  if (endpoint === undefined || !isIPv4(hostOf(endpoint))) return;
  if (familiesOf(networking.serviceSubnet).join() !== 'IPv6') return;
  addProblem(
    context,
    ['apiServer', 'endpoint'],
    'a name or an IPv6 address, because the networks of the cluster are IPv6',
  );
}
