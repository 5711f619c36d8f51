//! Finds the files of a job, and the image with which they can be read, in the ConfigMap that submit leaves for this.

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;

use super::error::ClusterError;
use crate::job::{JobFile, Volume};
use crate::objects::{DATA_NOTE, DataNote};
use crate::program::Program;

/// What is needed to create a pod that reads the files.
#[derive(Debug, Clone, PartialEq)]
pub struct FilesPod {
    /// The job file of the last submit.
    pub job: JobFile,
    /// The program that submit uploaded, if any.
    pub program: Option<Program>,
    /// The data that submit uploaded, if any.
    pub data_note: Option<DataNote>,
}

impl FilesPod {
    /// The same from a Job itself, for Jobs that were not made from the objects that were rendered last.
    pub fn of_job(job: &Job) -> Option<Self> {
        let spec = job.spec.as_ref()?.template.spec.as_ref()?;
        let volumes = spec.volumes.iter().flatten();
        let mut claims = volumes.filter_map(|volume| volume.persistent_volume_claim.as_ref());
        let claim = claims.next()?.claim_name.clone();
        let mut file = JobFile::new(&job.name_any(), Volume::Claim { name: claim });
        file.namespace = job.namespace()?;
        file.image = spec.containers.first()?.image.clone();
        let user = spec.security_context.as_ref()?.run_as_user;
        file.user = user.and_then(|user| user.try_into().ok())?;
        file.node_selector = spec.node_selector.clone().unwrap_or_default();
        let secrets = spec.image_pull_secrets.iter().flatten();
        file.image_pull_secrets = secrets.map(|secret| secret.name.clone()).collect();
        Some(Self {
            job: file,
            program: None,
            data_note: None,
        })
    }

    /// Reads the ConfigMap.
    pub(super) fn read(name: &str, map: &ConfigMap) -> Result<Self, ClusterError> {
        let broken = |cause: String| ClusterError::Broken {
            action: format!("read ConfigMap {name}, which says where the job's files are"),
            cause,
        };
        let text = |key: &str| map.data.as_ref().and_then(|data| data.get(key));
        let job = text("job.yaml").ok_or_else(|| broken("it has no key job.yaml".to_owned()))?;
        let job = JobFile::parse("job.yaml", job).map_err(|error| broken(error.to_string()))?;
        let program = text("program.json").map(|text| serde_json::from_str(text));
        let program = program
            .transpose()
            .map_err(|error| broken(error.to_string()))?;
        let data_note = text(DATA_NOTE).and_then(|text| serde_json::from_str(text).ok());
        Ok(Self {
            job,
            program,
            data_note,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::Data;
    use crate::program::Architecture;

    #[test]
    fn a_job_alone_shows_enough_to_read_its_files() {
        let job: Job = serde_json::from_value(serde_json::json!({
            "metadata": {"name": "ctr", "namespace": "team"},
            "spec": {"template": {"spec": {
                "containers": [{"name": "node", "image": "registry.example/canoe:1"}],
                "nodeSelector": {"pool": "cpu"},
                "securityContext": {"runAsUser": 1234},
                "volumes": [{"name": "tmp", "emptyDir": {}}, {"name": "job", "persistentVolumeClaim": {"claimName": "efsvol"}}],
            }}},
        }))
        .unwrap();
        let files = FilesPod::of_job(&job).unwrap().job;
        assert_eq!(crate::objects::claim_name(&files), "efsvol");
        assert_eq!(files.image.as_deref(), Some("registry.example/canoe:1"));
        assert_eq!((files.user, files.namespace.as_str()), (1234, "team"));
        assert_eq!(FilesPod::of_job(&Job::default()), None);
    }

    #[test]
    fn what_was_written_is_read() {
        let mut job = JobFile::new(
            "ctr",
            Volume::Nfs {
                server: "10.0.0.5".into(),
                path: "/export".into(),
                size: "1Gi".into(),
            },
        );
        job.data = Some(Data::default());
        job.user = 1234;
        let program = Program {
            sha256: "ab".repeat(32),
            architecture: Architecture::Arm64,
        };
        let note = DataNote {
            files: 2,
            bytes: 17,
            sha256: "cd".repeat(32),
        };
        for (program, note) in [(None, None), (Some(program), Some(note))] {
            let map = crate::objects::files(&job, program.as_ref(), note.as_ref());
            let map: ConfigMap = serde_json::from_value(map).unwrap();
            let read = FilesPod::read("ctr-files", &map).unwrap();
            let expected = FilesPod {
                job: JobFile {
                    data: None,
                    ..job.clone()
                },
                program,
                data_note: note,
            };
            assert_eq!(read, expected);
        }
        let error = FilesPod::read("ctr-files", &ConfigMap::default()).unwrap_err();
        assert!(error.to_string().contains("ctr-files"), "{error}");
    }
}
