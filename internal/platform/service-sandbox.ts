/**
 * Lines for the [Service] section of all our unprivileged services: the rights that they give up (systemd.exec(5)). A unit adds its
 * user, its paths and further restrictions, and never removes a line.
 */
export const SERVICE_SANDBOX = `ProtectSystem=strict
ProtectHome=yes
PrivateTmp=yes
PrivateDevices=yes
ProtectKernelTunables=yes
ProtectKernelModules=yes
ProtectKernelLogs=yes
ProtectControlGroups=yes
ProtectClock=yes
ProtectHostname=yes
ProtectProc=invisible
NoNewPrivileges=yes
CapabilityBoundingSet=
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
LockPersonality=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service
LimitCORE=0`;

/**
 * A line for the [Service] section of our long-running programs. V8's compilers allocate blocks of 32 KiB
 * and more. As separate mappings, freed blocks return to the system; in malloc's heap they would leave gaps
 * (mallopt(3)).
 */
export const NODE_MEMORY = 'Environment=MALLOC_MMAP_THRESHOLD_=32768';
