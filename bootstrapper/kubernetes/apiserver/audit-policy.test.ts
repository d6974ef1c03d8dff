import { describe, expect, test } from '@jest/globals';
import { MemoryFiles } from '../../../internal/testing/index.ts';
import { PATHS } from '../settings.ts';
import { AUDIT_POLICY, auditArguments, writeAuditPolicy, type AuditRule } from './audit-policy.ts';

interface Request {
  readonly user?: string;
  readonly groups?: readonly string[];
  readonly verb: string;
  /** "group/resource", "resource" of the core group, or a path that begins with "/". */
  readonly target: string;
}

/** The level of a request, by the rules of the API server (k8s.io/apiserver/pkg/audit/policy/checker.go). */
function levelOf(request: Request): string | undefined {
  return AUDIT_POLICY.rules.find((rule) => isMatch(rule, request))?.level;
}

function isMatch(rule: AuditRule, { user = 'ada', groups = [], verb, target }: Request): boolean {
  if (rule.users !== undefined && !rule.users.includes(user)) return false;
  if (rule.userGroups !== undefined && !rule.userGroups.some((group) => groups.includes(group))) return false;
  if (rule.verbs !== undefined && !rule.verbs.includes(verb)) return false;
  if (target.startsWith('/')) {
    if (rule.resources !== undefined) return false;
    return (
      rule.nonResourceURLs?.some(
        (url) => target === url || target.startsWith(url.replace(/\*$/, '\0').split('\0')[0] ?? ''),
      ) ?? true
    );
  }
  if (rule.nonResourceURLs !== undefined) return false;
  const dot = /^([a-z0-9.]+\.k8s\.io)\/(.+)$/.exec(target);
  const [group, resource] = dot === null ? ['', target] : [dot[1], dot[2] ?? ''];
  return (
    rule.resources?.some(
      (each) => each.group === group && (each.resources === undefined || each.resources.includes(resource)),
    ) ?? true
  );
}

const KUBELET = { user: 'system:node:n1', groups: ['system:nodes'] };
const CONTROLLER = {
  user: 'system:serviceaccount:kube-system:endpointslice-controller',
  groups: ['system:serviceaccounts', 'system:serviceaccounts:kube-system'],
};

describe('AUDIT_POLICY', () => {
  const levels: readonly { name: string; request: Request; want: string }[] = [
    ...['get', 'list', 'create', 'patch', 'deletecollection'].flatMap((verb) =>
      ['secrets', 'configmaps'].map((target) => ({
        name: `${verb} ${target} without contents`,
        request: { verb, target },
        want: 'Metadata',
      })),
    ),
    {
      name: 'a Secret that a kubelet reads, without contents',
      request: { ...KUBELET, verb: 'get', target: 'secrets' },
      want: 'Metadata',
    },
    {
      name: 'a Secret that a controller lists, without contents',
      request: { ...CONTROLLER, verb: 'list', target: 'secrets' },
      want: 'Metadata',
    },
    {
      name: 'a created token, without contents',
      request: { verb: 'create', target: 'serviceaccounts/token' },
      want: 'Metadata',
    },
    {
      name: 'a review of a token, without contents',
      request: { ...KUBELET, verb: 'create', target: 'authentication.k8s.io/tokenreviews' },
      want: 'Metadata',
    },
    ...['pods/exec', 'pods/attach', 'pods/portforward'].flatMap((target) =>
      [{}, CONTROLLER, { user: 'system:kube-controller-manager' }].map((caller) => ({
        name: `${target} of ${'user' in caller ? caller.user : 'a person'} with the command`,
        request: { ...caller, verb: 'get', target },
        want: 'Request',
      })),
    ),
    ...['create', 'update', 'patch', 'delete'].map((verb) => ({
      name: `${verb} of a role binding with the result`,
      request: { ...CONTROLLER, verb, target: 'rbac.authorization.k8s.io/clusterrolebindings' },
      want: 'RequestResponse',
    })),
    {
      name: 'a changed webhook with the request',
      request: { verb: 'patch', target: 'admissionregistration.k8s.io/validatingwebhookconfigurations' },
      want: 'Request',
    },
    {
      name: 'an approved certificate with the request',
      request: { verb: 'update', target: 'certificates.k8s.io/certificatesigningrequests/approval' },
      want: 'Request',
    },
    { name: 'a created pod', request: { verb: 'create', target: 'pods' }, want: 'Metadata' },
    { name: 'a read by an ordinary user', request: { verb: 'list', target: 'pods' }, want: 'Metadata' },
    {
      name: 'a request by an ordinary user for a path',
      request: { verb: 'get', target: '/metrics' },
      want: 'Metadata',
    },
    {
      name: 'a pod that a kubelet deletes',
      request: { ...KUBELET, verb: 'delete', target: 'pods' },
      want: 'Metadata',
    },
    {
      name: 'no health check',
      request: { user: 'system:anonymous', verb: 'get', target: '/readyz' },
      want: 'None',
    },
    {
      name: 'no single health check',
      request: { user: 'system:anonymous', verb: 'get', target: '/livez/etcd' },
      want: 'None',
    },
    {
      name: 'no heartbeat from a kubelet',
      request: { ...KUBELET, verb: 'update', target: 'coordination.k8s.io/leases' },
      want: 'None',
    },
    {
      name: 'no status update from a kubelet',
      request: { ...KUBELET, verb: 'patch', target: 'nodes/status' },
      want: 'None',
    },
    { name: 'no watch by a kubelet', request: { ...KUBELET, verb: 'watch', target: 'pods' }, want: 'None' },
    {
      name: 'no update of the endpoints of a Service',
      request: { ...CONTROLLER, verb: 'update', target: 'discovery.k8s.io/endpointslices' },
      want: 'None',
    },
    { name: 'no event', request: { verb: 'create', target: 'events' }, want: 'None' },
  ];
  test.each(levels)('logs $name', ({ request, want }) => {
    expect(levelOf(request)).toBe(want);
  });

  test('has no rule with bodies that matches secrets', () => {
    const withBodies = AUDIT_POLICY.rules.filter(({ level }) => level.startsWith('Request'));
    expect(withBodies).toHaveLength(3);
    for (const rule of withBodies) {
      // A rule without resources, or of the whole core group, would match secrets.
      expect(rule.resources).toBeDefined();
      for (const { group, resources } of rule.resources ?? [])
        expect(group !== '' || resources !== undefined).toBe(true);
    }
  });
});

test('writeAuditPolicy() writes the policy and creates the directory of the log for root alone', async () => {
  const files = new MemoryFiles();
  await writeAuditPolicy(files);
  const text = Buffer.from((await files.read(PATHS.auditPolicy, 65_536)) ?? []).toString('utf8');
  expect(JSON.parse(text)).toEqual(AUDIT_POLICY);
  expect(await files.stat('/var/log/kubernetes')).toMatchObject({ mode: 0o700 });
});

test('auditArguments() limit the age, the number and the size of the files', () => {
  expect(Object.fromEntries(auditArguments().map(({ name, value }) => [name, value]))).toMatchObject({
    'audit-log-path': '/var/log/kubernetes/audit.log',
    'audit-log-maxage': '30',
    'audit-log-maxbackup': '10',
    'audit-log-maxsize': '100',
  });
});
