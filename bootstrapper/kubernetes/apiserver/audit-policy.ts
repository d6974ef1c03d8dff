import { dirname } from 'node:path';
import { NETWORK_NAMESPACE } from '../../../internal/config/index.ts';
import type { FilePort } from '../../../internal/file/index.ts';
import { PATHS } from '../settings.ts';

/** How much of a request the API server logs: nothing, who did what, also the request, also the response. */
export type AuditLevel = 'None' | 'Metadata' | 'Request' | 'RequestResponse';

/** Resources of one API group; `pods/exec` is a subresource. No `resources`: all of the group. */
export interface AuditedResources {
  readonly group: string;
  readonly resources?: readonly string[];
}

/** A rule for requests that match all of its members (audit.k8s.io/v1, PolicyRule). */
export interface AuditRule {
  readonly level: AuditLevel;
  readonly users?: readonly string[];
  readonly userGroups?: readonly string[];
  readonly verbs?: readonly string[];
  readonly resources?: readonly AuditedResources[];
  readonly nonResourceURLs?: readonly string[];
}

/** A Policy (audit.k8s.io/v1). The first rule that matches a request sets its level. */
export interface AuditPolicy {
  readonly apiVersion: 'audit.k8s.io/v1';
  readonly kind: 'Policy';
  readonly omitStages: readonly string[];
  readonly omitManagedFields: boolean;
  readonly rules: readonly AuditRule[];
}

/** Limits of the audit log: at most eleven files of 100 MB (10^6 bytes), of which ten are compressed. */
export const AUDIT_LOG_LIMITS = { maxAgeDays: 30, maxBackups: 10, maxSizeMb: 100 } as const;

const READS = ['get', 'list', 'watch'];
const CHANGES = ['create', 'update', 'patch', 'delete', 'deletecollection'];
/** Components that read and write all the time to do their work. */
const SYSTEM_USERS = [
  'system:apiserver',
  'system:kube-controller-manager',
  'system:kube-scheduler',
  'system:kube-proxy',
];
const SYSTEM_GROUPS = [
  'system:nodes',
  'system:serviceaccounts:kube-system',
  `system:serviceaccounts:${NETWORK_NAMESPACE}`,
];

/**
 * The audit policy of every control plane. Requests that show who got access come first, so that no rule
 * against noise hides them. Bodies are logged only for objects that contain no secrets.
 */
export const AUDIT_POLICY: AuditPolicy = {
  apiVersion: 'audit.k8s.io/v1',
  kind: 'Policy',
  // The later stages of a request contain all that this stage contains.
  omitStages: ['RequestReceived'],
  omitManagedFields: true,
  rules: [
    // Requests of health checks, every second and without a user.
    {
      level: 'None',
      verbs: ['get'],
      nonResourceURLs: ['/healthz*', '/livez*', '/readyz*', '/version'],
    },
    // Secrets, ConfigMaps and tokens: the log shows which user read or wrote them, but never their contents.
    {
      level: 'Metadata',
      resources: [
        { group: '', resources: ['secrets', 'configmaps', 'serviceaccounts/token'] },
        { group: 'authentication.k8s.io', resources: ['tokenreviews'] },
      ],
    },
    // Commands in containers and connections into the cluster. The request contains the command.
    {
      level: 'Request',
      resources: [
        {
          group: '',
          resources: [
            'pods/exec',
            'pods/attach',
            'pods/portforward',
            'pods/proxy',
            'pods/ephemeralcontainers',
            'services/proxy',
            'nodes/proxy',
          ],
        },
      ],
    },
    // Changes of permissions, with the result: a patch alone does not show who has which rights now.
    {
      level: 'RequestResponse',
      verbs: [...CHANGES, 'bind', 'escalate'],
      resources: [{ group: 'rbac.authorization.k8s.io' }],
    },
    {
      level: 'Request',
      verbs: CHANGES,
      resources: [
        { group: 'admissionregistration.k8s.io' },
        { group: 'apiregistration.k8s.io' },
        {
          group: 'certificates.k8s.io',
          resources: [
            'certificatesigningrequests',
            'certificatesigningrequests/approval',
            'certificatesigningrequests/status',
          ],
        },
      ],
    },
    // Noise of the system: heartbeats, status reports, events, leader election, endpoints of Services.
    {
      level: 'None',
      resources: [{ group: '', resources: ['events'] }, { group: 'events.k8s.io' }],
    },
    ...[{ users: SYSTEM_USERS }, { userGroups: SYSTEM_GROUPS }].flatMap((callers): AuditRule[] => [
      { level: 'None', ...callers, verbs: READS },
      {
        level: 'None',
        ...callers,
        resources: [
          { group: '', resources: ['nodes/status', 'pods/status', 'endpoints'] },
          { group: 'coordination.k8s.io', resources: ['leases'] },
          { group: 'discovery.k8s.io', resources: ['endpointslices'] },
          { group: 'authorization.k8s.io', resources: ['subjectaccessreviews'] },
        ],
      },
    ]),
    // Everything else: who did what, to which object, and the answer.
    { level: 'Metadata' },
  ],
};

/**
 * Writes the audit policy and creates the directory of the log, which only root may read. API servers read
 * the policy when they start: a policy of a newer release of the agent restarts no API server.
 */
export async function writeAuditPolicy(files: FilePort): Promise<void> {
  await files.makeDirectory(dirname(PATHS.auditPolicy));
  await files.writeAtomic(PATHS.auditPolicy, `${JSON.stringify(AUDIT_POLICY, undefined, 2)}\n`);
  await files.makeDirectory(dirname(PATHS.auditLog), 0o700);
}

/** Arguments of the API server for its audit log. */
export function auditArguments(): readonly { readonly name: string; readonly value: string }[] {
  const { maxAgeDays, maxBackups, maxSizeMb } = AUDIT_LOG_LIMITS;
  return [
    { name: 'audit-policy-file', value: PATHS.auditPolicy },
    { name: 'audit-log-path', value: PATHS.auditLog },
    { name: 'audit-log-maxage', value: `${maxAgeDays}` },
    { name: 'audit-log-maxbackup', value: `${maxBackups}` },
    { name: 'audit-log-maxsize', value: `${maxSizeMb}` },
    { name: 'audit-log-compress', value: 'true' },
  ];
}
