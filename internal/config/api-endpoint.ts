import { parseEndpoint, PORTS } from '../endpoint/index.ts';
import { z } from 'zod';

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
