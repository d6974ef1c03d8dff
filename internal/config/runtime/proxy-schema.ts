import { isIPv6 } from 'node:net';
import { z } from 'zod';
import { addProblem } from '../errors.ts';
import { subnetsFrom } from '../subnet.ts';

const MAX_ENTRIES = 64;
const HOST = /[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*/.source;
/** Without user, path and query: a password would be readable on every node, and proxies have no paths. */
const PROXY_URL = new RegExp(`^https?://(${HOST}|\\[[0-9a-f:]+\\]):[0-9]{1,5}/?$`);
/** A host, a domain with its subdomains (".example.org"), or a network, as Go programs read NO_PROXY (golang.org/x/net/http/httpproxy). */
const EXCEPTION = new RegExp(`^(\\.?${HOST}(:[0-9]{1,5})?|[0-9]{1,3}(\\.[0-9]{1,3}){3}/[0-9]{1,2})$`);

const proxyUrl = z
  .string()
  .max(512)
  .refine(
    (url) => PROXY_URL.test(url) && URL.canParse(url),
    'a URL with a port and without user and path, like “http://proxy.example.org:3128”',
  )
  .optional();

/**
 * `proxy:` of `cluster.yaml`: the HTTP proxy to registries and chart repositories. May change while the cluster runs.
 */
export const proxySchema = z
  .strictObject({
    http: proxyUrl.describe('Proxy for http:// URLs.'),
    https: proxyUrl.describe('Proxy for https:// URLs.'),
    noProxy: z
      .array(
        z
          .string()
          .max(253)
          .refine(isException, 'a host, a domain like “.example.org”, or a network like “192.0.2.0/24”'),
      )
      .max(MAX_ENTRIES)
      .default([])
      .describe(
        'Hosts, domains and networks that are reached without the proxy, in addition to this machine, the API servers, pods and services.',
      ),
  })
  .superRefine(({ http, https, noProxy }, context) => {
    if (http !== undefined || https !== undefined || noProxy.length === 0) return;
    addProblem(context, ['noProxy'], 'left out, because neither `http` nor `https` is set');
  })
  .describe('HTTP proxy through which nodes pull images, and this CLI charts.');

/** Whether Go programs understand an entry of NO_PROXY. They read an IPv6 address without brackets. */
function isException(text: string): boolean {
  if (!text.includes('::') && text.split(':').length < 3) return EXCEPTION.test(text);
  return isIPv6(text) ? !text.includes('%') : subnetsFrom(text)?.length === 1;
}

/** The parsed section. */
export type ProxyConfig = z.output<typeof proxySchema>;

/** The proxy of a cluster, and the networks and servers of the cluster that are never reached through it. */
export interface ProxiedCluster {
  readonly proxy: ProxyConfig;
  readonly podSubnet: string;
  readonly serviceSubnet: string;
  /** Names and addresses of the API servers. */
  readonly apiServers: readonly string[];
}

/** The environment variables of a program that uses the proxy; empty if the cluster has none. */
export function proxyEnvironment(cluster: ProxiedCluster): Readonly<Record<string, string>> {
  const { http, https } = cluster.proxy;
  if (http === undefined && https === undefined) return {};
  return {
    ...(http === undefined ? {} : { HTTP_PROXY: http }),
    ...(https === undefined ? {} : { HTTPS_PROXY: https }),
    NO_PROXY: exceptionsOf(cluster).join(','),
  };
}

/** All exceptions, without duplicates: computed ones first, then those of the operator. */
export function exceptionsOf({
  proxy,
  podSubnet,
  serviceSubnet,
  apiServers,
}: ProxiedCluster): readonly string[] {
  const computed = [
    'localhost',
    '127.0.0.0/8',
    '::1',
    '.svc',
    '.cluster.local',
    podSubnet,
    serviceSubnet,
  ].flatMap((each) => each.split(','));
  return [...new Set([...computed, ...apiServers, ...proxy.noProxy])];
}
