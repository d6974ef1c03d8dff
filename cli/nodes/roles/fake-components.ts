/** The status report of a ready control plane. With a reason, its API server is reported as not ready. */
export function reportedComponents(whyNoApi = '') {
  return [
    { name: 'kube-apiserver', ready: whyNoApi === '', why: whyNoApi, sinceMs: 1n },
    { name: 'kube-controller-manager', ready: true, why: '', sinceMs: 1n },
    { name: 'kube-scheduler', ready: true, why: '', sinceMs: 1n },
  ];
}
