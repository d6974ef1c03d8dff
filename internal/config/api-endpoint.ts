import { parseEndpoint, PORTS } from '../endpoint/index.ts';
import { z } from 'zod';

/** Where each node has a balancer of the API servers of its own, unless the operator has one for all: no single address to lose. */
export const LOCAL_API_ENDPOINT = { host: '127.0.0.1', port: PORTS.apiBalancer } as const;

const LOOPBACK = /^(127\.[0-9.]+|localhost|\[::1\]):/i;

/** `apiServer.endpoint` of `cluster.yaml`: an operator's own virtual address or load balancer of the API servers. */
export const apiEndpointSchema = z
  .string()
  // No default port: it is written into the configuration of every node.
  .refine(
    (text) => parseEndpoint(text, 0) === text && !LOOPBACK.test(text),
    'an address that every node reaches, with its port, like “api.example.org:6443”',
  )
  .describe(
    'Your own virtual address or load balancer of the API servers, “host:port”. Nodes and kubeconfigs use it, and no node-local balancer runs. Set when the cluster is made; it must pass connections on to the first machine (port 6443) while that is initialized.',
  );
