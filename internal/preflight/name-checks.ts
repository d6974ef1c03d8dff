import { isIP } from 'node:net';
import type { Observation } from './check.ts';
import type { PreflightErrorCode } from './errors.ts';
import type { MachineFacts } from './machine-facts.ts';

type Observe = (facts: MachineFacts) => readonly Observation[];

/** Addresses of one link alone are left out where facts are collected (internal/platform). */
const NO_ADDRESS =
  'the machine has no address but those of loopback and of single links (169.254.0.0/16, fe80::/10)';
/** glibc and the kubelet read no more (resolv.conf(5), MAXNS). */
const MAX_NAMESERVERS = 3;

const address: Observe = ({ addresses, configuredAddress: wantedAddress }) => {
  const threshold = wantedAddress ?? 'one that other machines reach';
  const figure = addresses.join(', ') || 'none';
  const seen = { subject: 'address', figure, threshold };
  if (addresses.length === 0) return [{ ...seen, problem: { status: 'failed', cause: NO_ADDRESS } }];
  if (wantedAddress === undefined || addresses.includes(wantedAddress)) return [seen];
  const cause = `the machine is configured with ${wantedAddress} but has ${figure}`;
  return [{ ...seen, problem: { status: 'failed', cause } }];
};

const hostname: Observe = (facts) => {
  const cause = problemOfName(facts);
  return [
    {
      subject: `hostname ${facts.nodeName}`,
      figure: facts.nameResolvesTo.join(', ') || 'resolves to nothing',
      threshold: 'a name of this machine alone',
      problem: cause === undefined ? undefined : { status: 'failed', cause },
    },
  ];
};

function problemOfName({
  nodeName,
  nameResolvesTo,
  addresses,
  configuredAddress: wantedAddress,
}: MachineFacts): string | undefined {
  if (nodeName === 'localhost' || nodeName.startsWith('localhost.'))
    return `the machine is called ${nodeName}, as every other machine is to itself`;
  const others = nameResolvesTo.filter(
    (each) =>
      !addresses.includes(each) &&
      each !== wantedAddress && // that the machine does not have it is another check's to tell
      !isLoopback(each),
  );
  if (others.length === 0 || addresses.length === 0) return undefined;
  return `${nodeName} resolves to ${others.join(', ')}, this machine has ${addresses.join(', ')}`;
}

const dns: Observe = ({ resolvConf }) => {
  const servers = nameservers(resolvConf);
  const seen = {
    subject: 'name servers',
    figure: servers.join(', ') || 'none',
    threshold: `1 to ${MAX_NAMESERVERS} that pods reach`,
  };
  const cause = problemOfServers(servers);
  return [cause === undefined ? seen : { ...seen, problem: { status: 'warning', cause } }];
};

function problemOfServers(servers: readonly string[]): string | undefined {
  if (servers.length === 0) return 'no name server is configured: pods resolve names of the cluster only';
  const loopback = servers.filter(isLoopback);
  if (loopback.length > 0)
    return `${loopback.join(', ')} is this machine itself; inside a pod it is the pod: CoreDNS would ask itself`;
  if (servers.length > MAX_NAMESERVERS)
    return `${servers.length} name servers are configured; only the first ${MAX_NAMESERVERS} are asked`;
  return undefined;
}

export const NAME_CHECKS: readonly (readonly [PreflightErrorCode, Observe])[] = [
  ['preflight-address', address],
  ['preflight-hostname', hostname],
  ['preflight-dns', dns],
];

function nameservers(resolvConf: string): readonly string[] {
  return [...resolvConf.matchAll(/^\s*nameserver\s+(\S+)/gm)]
    .map(([, server = '']) => server)
    .filter((server) => isIP(server.split('%')[0] ?? '') !== 0);
}

function isLoopback(address: string): boolean {
  return address.startsWith('127.') || address === '::1';
}
