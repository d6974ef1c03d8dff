import { MODULES_FILE, REQUIRED_PROGRAMS, SYSCTL_FILE } from '../../internal/preflight/index.ts';

interface Named {
  readonly name: string;
  readonly version: string;
}

/** Extracts `root/` only, and keeps the modes of existing directories. */
function unpack({ name, version }: Named): string {
  return `tar --extract --gzip --file ${name}-${version}-linux-*.tar.gz --directory / --no-overwrite-dir \\
    --no-same-owner --strip-components=2 ${name}-${version}/root`;
}

/** The steps of the package scripts, described for a manual installation. */
export function agentNotes(named: Named): string {
  const programs = [...new Set(REQUIRED_PROGRAMS.map(({ program }) => program))].join(', ');
  const { name, version } = named;
  return `${name} ${version}: the agent, for machines without dpkg and rpm

The machine needs systemd 247 or newer with cgroup v2, D-Bus, glibc 2.28 or newer with libstdc++, and the programs
${programs}.

Install, or update, as root:

  ${unpack(named)}
  /usr/lib/systemd/systemd-modules-load ${MODULES_FILE}
  /usr/lib/systemd/systemd-sysctl ${SYSCTL_FILE}
  systemctl daemon-reload
  systemctl enable bootstrapper.service
  systemctl try-restart bootstrapper.service cluster-joinservice.service cluster-signer.service

Then write /etc/cluster/provisioning.json (0600) and \`systemctl start bootstrapper.service\`.

Remove, after the machine was reset (\`cluster node reset --help\`):

  /usr/lib/cluster/purge
  rm -r /usr/lib/cluster /usr/share/doc/${name} /usr/lib/systemd/system/bootstrapper.service \\
    /usr/lib/systemd/system/cluster-fingerprint.service /usr/lib/systemd/system/cri-containerd-.scope.d /usr/lib/systemd/system/kubepods-*-kept.slice \\
    ${MODULES_FILE} ${SYSCTL_FILE}
  systemctl daemon-reload

\`purge\` stops the agent and deletes what it has written: the provisioning in /etc/cluster, the identity of this machine in
/var/lib/cluster, the programs of Kubernetes in /opt/cluster, units in /etc/systemd/system, and the accounts cluster-*. To keep them,
run \`systemctl disable --now bootstrapper.service\` instead.
`;
}

/** The text of INSTALL in the tarball of the operator's program. */
export function cliNotes(named: Named): string {
  const { name, version } = named;
  return `${name} ${version}: the operator's program, for machines without dpkg and rpm

It needs glibc 2.28 or newer with libstdc++.

Install, or update, as root:

  ${unpack(named)}

Remove:

  rm -r /usr/lib/cluster-cli /usr/bin/cluster /usr/share/doc/${name} \\
    /usr/share/man/man1/cluster.1.gz /usr/share/man/man1/cluster-*.1.gz
`;
}
