/** The components that a ready control plane reports; with a reason, its API server is not ready. */
export function reportedComponents(whyNoApi = '') {
  return [
    { name: 'kube-apiserver', ready: whyNoApi === '', why: whyNoApi, sinceMs: 1n },
    { name: 'kube-controller-manager', ready: true, why: '', sinceMs: 1n },
    { name: 'kube-scheduler', ready: true, why: '', sinceMs: 1n },
  ];
}
