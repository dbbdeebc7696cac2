package org.apache.kafka.controller;

import org.apache.kafka.timeline.SnapshotRegistry;

/** Makes what the controller's managers share. */
final class Registries {
    private Registries() {}

    static SnapshotRegistry create() {
        try {
            var constructor = SnapshotRegistry.class.getConstructors()[0]; // LogContext has moved
            return (SnapshotRegistry) constructor.newInstance(
                constructor.getParameterTypes()[0].getConstructor().newInstance());
        } catch (ReflectiveOperationException problem) {
            throw new IllegalStateException(problem);
        }
    }
}
